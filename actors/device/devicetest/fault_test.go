package devicetest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"stalloc/actors/device"
	"stalloc/actors/device/devicetest"
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

func TestFaultByNumber(t *testing.T) {
	f := devicetest.NewFault(sim.New(sim.Config{}), 1, devicetest.Rule{Kind: devicetest.CallCreate,
		Nth: 2, Code: driver.CodeOutOfMemory})
	for n := 1; n <= 3; n++ {
		_, err := f.Create(mem.HandleSize)
		if failed := errors.Is(err, driver.ErrOutOfMemory); failed != (n == 2) {
			t.Errorf("Create number %d: %v", n, err)
		}
		if err != nil && !strings.Contains(err.Error(),
			"injected fault: cuMemCreate failed with driver error 2") {
			t.Errorf("the error says %q", err)
		}
	}
	f.Set(devicetest.Rule{Kind: devicetest.AnyCall, Code: 719})
	var failure *driver.Error
	if err := f.Sync(); !errors.As(err, &failure) || failure.Code != 719 ||
		failure.Call != "cuCtxSynchronize" {
		t.Errorf("Sync with every call failing: %v", err)
	}
	if _, _, err := f.Memory(); err == nil {
		t.Error("Memory works with every call failing")
	}
	f.Set()
	must(t, f.Sync())
	if n := f.Injected(); n != 3 {
		t.Errorf("%d faults injected, want 3", n)
	}
}

// TestFaultByChance: the same seed makes the same calls fail.
func TestFaultByChance(t *testing.T) {
	run := func(seed uint64) (failed []int) {
		f := devicetest.NewFault(sim.New(sim.Config{}), seed,
			devicetest.Rule{Kind: devicetest.CallSync, Chance: 0.2, Code: 999})
		for n := range 1000 {
			if f.Sync() != nil {
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
	f := devicetest.NewFault(inner, 1, devicetest.Rule{Kind: devicetest.AnyCall, Code: 1})
	_, _ = f.Reserve(page)
	_, _ = f.Create(mem.HandleSize)
	_, _ = f.Record(0)
	if calls := inner.Stats().Calls(); calls != 0 {
		t.Errorf("%d refused calls reached the device", calls)
	}
}

// TestWrapperConforms: a wrapper that changes nothing by its settings is as good a device as
// what it wraps.
func TestWrapperConforms(t *testing.T) {
	devicetest.Run(t, func() device.Device {
		return devicetest.NewFault(sim.New(sim.Config{Capacity: 256 * mem.MiB}), 1)
	})
}
