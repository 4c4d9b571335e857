package device_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

const page = mem.HandleSize

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// session makes a few calls, one of which fails, and returns the addresses.
func session(t *testing.T, d device.Device) (mem.Addr, driver.Handle) {
	t.Helper()
	addr, err := d.Reserve(2 * page)
	must(t, err)
	h, err := d.Create(mem.HandleSize)
	must(t, err)
	must(t, d.Map(addr, h))
	if err := d.Map(addr, h); err == nil {
		t.Error("Map over a mapping is accepted")
	}
	must(t, d.Access(addr, page))
	return addr, h
}

func TestCount(t *testing.T) {
	inner := sim.New(sim.Config{})
	c := device.NewCount(inner, inner.Time)
	session(t, c)
	got := c.Counts()
	if got.Calls[device.CallMap] != 2 || got.Failed[device.CallMap] != 1 || got.Failed[device.CallAccess] != 0 {
		t.Errorf("Map counted %d times, failed %d", got.Calls[device.CallMap], got.Failed[device.CallMap])
	}
	if want := 23600 * time.Nanosecond; got.Time[device.CallAccess] != want {
		t.Errorf("Access took %v of modelled time, want %v", got.Time[device.CallAccess], want)
	}
	calls, spent := got.Total()
	if stats := inner.Stats(); calls != stats.Calls() || spent != stats.Time {
		t.Errorf("counted %d calls in %v, the device %d in %v", calls, spent, stats.Calls(), stats.Time)
	}
}

func TestTrace(t *testing.T) {
	tr := device.NewTrace(sim.New(sim.Config{FenceDelay: 1}))
	session(t, tr)
	f, err := tr.Record(7)
	must(t, err)
	_, err = tr.Done(f)
	must(t, err)
	want := `Reserve addr=0x100000000000 size=4.00 MiB
Create size=2.00 MiB handle=1
Map addr=0x100000000000 handle=1
Map addr=0x100000000000 handle=1 error=cuMemMap failed with driver error 1 (CUDA_ERROR_INVALID_VALUE): a handle is already mapped at 0x100000000000
Access addr=0x100000000000 size=2.00 MiB
Record stream=7 fence=1
Done fence=1 passed=false
`
	if got := tr.String(); got != want {
		t.Errorf("the trace is\n%swant\n%s", got, want)
	}
	if n := len(tr.Take()); n != 7 || len(tr.Calls()) != 0 {
		t.Errorf("Take gave %d calls and left %d", n, len(tr.Calls()))
	}
}

func TestFaultByNumber(t *testing.T) {
	f := device.NewFault(sim.New(sim.Config{}), 1, device.Rule{Kind: device.CallCreate, Nth: 2, Code: driver.CodeOutOfMemory})
	for n := 1; n <= 3; n++ {
		_, err := f.Create(mem.HandleSize)
		if failed := errors.Is(err, driver.ErrOutOfMemory); failed != (n == 2) {
			t.Errorf("Create number %d: %v", n, err)
		}
		if err != nil && !strings.Contains(err.Error(), "injected fault: cuMemCreate failed with driver error 2") {
			t.Errorf("the error says %q", err)
		}
	}
	f.Set(device.Rule{Kind: device.AnyCall, Code: 719})
	var failure *driver.Error
	if err := f.Sync(0); !errors.As(err, &failure) || failure.Code != 719 || failure.Call != "cuStreamSynchronize" {
		t.Errorf("Sync with every call failing: %v", err)
	}
	if _, _, err := f.Memory(); err == nil {
		t.Error("Memory works with every call failing")
	}
	f.Set()
	must(t, f.Sync(0))
	if n := f.Injected(); n != 3 {
		t.Errorf("%d faults injected, want 3", n)
	}
}

// TestFaultByChance: the same seed makes the same calls fail.
func TestFaultByChance(t *testing.T) {
	run := func(seed uint64) (failed []int) {
		f := device.NewFault(sim.New(sim.Config{}), seed, device.Rule{Kind: device.CallSync, Chance: 0.2, Code: 999})
		for n := range 1000 {
			if f.Sync(0) != nil {
				failed = append(failed, n)
			}
		}
		return failed
	}
	first, again, other := run(1), run(1), run(2)
	if len(first) < 120 || len(first) > 280 {
		t.Errorf("%d of 1000 calls failed at a chance of 0.2", len(first))
	}
	if !slices.Equal(first, again) || slices.Equal(first, other) {
		t.Error("the seed does not decide which calls fail")
	}
}

// TestFaultedCallDoesNotReachDevice: the device is as before a refused call.
func TestFaultedCallDoesNotReachDevice(t *testing.T) {
	inner := sim.New(sim.Config{})
	f := device.NewFault(inner, 1, device.Rule{Kind: device.AnyCall, Code: 1})
	_, _ = f.Reserve(page)
	_, _ = f.Create(mem.HandleSize)
	_, _ = f.Malloc(1)
	if calls := inner.Stats().Calls(); calls != 0 {
		t.Errorf("%d refused calls reached the device", calls)
	}
}

func TestLimit(t *testing.T) {
	inner := sim.New(sim.Config{Capacity: mem.GiB})
	d := device.NewLimit(inner, 3*page)
	expect := func(want mem.Bytes) {
		t.Helper()
		if free, total, err := d.Memory(); free != want || total != 3*page || err != nil {
			t.Errorf("%v free of %v, %v, want %v", free, total, err, want)
		}
	}
	full := func(err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(), "of a limit of 6.00 MiB in use, ") {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	expect(3 * page)
	addr, err := d.Reserve(4 * page)
	must(t, err)
	h, err := d.Create(mem.HandleSize)
	must(t, err)
	block, err := d.Malloc(page + 1)
	must(t, err)
	expect(2*page - page - mem.Grain)
	_, err = d.Create(mem.HandleSize)
	full(err)
	_, err = d.Malloc(page)
	full(err)
	if _, err = d.Malloc(1 << 62); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("Malloc of 4 EiB: %v", err)
	}
	must(t, d.Free(block))

	// A handle counts until it is released and nowhere mapped.
	must(t, d.Map(addr, h))
	must(t, d.Map(addr+mem.Addr(page), h))
	must(t, d.Release(h))
	expect(2 * page)
	must(t, d.Unmap(addr, page))
	expect(2 * page)
	must(t, d.Unmap(addr+mem.Addr(page), page))
	expect(3 * page)

	// Handles count by their sizes.
	large, err := d.Create(2 * page)
	must(t, err)
	expect(page)
	_, err = d.Create(2 * page)
	full(err)
	must(t, d.Map(addr+mem.Addr(page), large))
	must(t, d.Release(large))
	expect(page)
	if d.Unmap(addr+2*mem.Addr(page), page) == nil {
		t.Error("part of a handle is unmapped")
	}
	expect(page)
	must(t, d.Unmap(addr+mem.Addr(page), 2*page))
	expect(3 * page)

	// A call that fails below the limit takes nothing.
	if _, err := d.Malloc(0); err == nil {
		t.Error("Malloc(0) is accepted")
	}
	if d.Free(block) == nil || d.Release(h) == nil || d.Map(addr, h) == nil {
		t.Error("a freed block or handle is accepted")
	}
	expect(3 * page)
}

// TestLimitKeepsOutOfEarlierMemory: handles from before the limit are not its
// business.
func TestLimitKeepsOutOfEarlierMemory(t *testing.T) {
	inner := sim.New(sim.Config{})
	addr, h := session(t, inner)
	d := device.NewLimit(inner, 2*page)
	must(t, d.Map(addr+mem.Addr(page), h))
	must(t, d.Unmap(addr, 2*page))
	must(t, d.Release(h))
	if free, _, _ := d.Memory(); free != 2*page {
		t.Errorf("%v free, want %v", free, 2*page)
	}
}
