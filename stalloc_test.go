package stalloc_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc"
	"stalloc/actors/device/devicetest"
	"stalloc/cuda/sim"
)

func open(t *testing.T, o stalloc.Options) *stalloc.Allocator {
	t.Helper()
	if o.Simulated == 0 && o.Device == nil {
		o.Simulated = stalloc.GiB
	}
	a, err := stalloc.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func malloc(t *testing.T, a *stalloc.Allocator, stream stalloc.Stream,
	size stalloc.Bytes) stalloc.Addr {
	t.Helper()
	addr, err := a.Malloc(stream, size)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// is checks what an error matches and says.
func is(t *testing.T, err, target error, texts ...string) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("the error is %v, want one that matches %q", err, target)
		return
	}
	says(t, err, texts...)
}

func says(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("the error is %v, want one that says %q", err, text)
		}
	}
}

func TestSizes(t *testing.T) {
	a := open(t, stalloc.Options{})
	if addr, err := a.Malloc(0, 0); addr != 0 || err != nil {
		t.Errorf("a block of no bytes: %#x, %v", uint64(addr), err)
	}
	must(t, a.Free(0))
	for _, size := range []stalloc.Bytes{-1, math.MinInt64} {
		if addr, err := a.Malloc(0, size); err == nil {
			t.Errorf("%d bytes gave %#x", int64(size), uint64(addr))
		}
	}
	for _, size := range []stalloc.Bytes{math.MaxInt64, math.MaxInt64 - 511, 1 << 62} {
		if addr, err := a.Malloc(0, size); err == nil {
			t.Errorf("%v gave %#x", size, uint64(addr))
		}
	}
	for _, size := range []stalloc.Bytes{1, 511, 512, 513, stalloc.HandleSize + 1} {
		addr := malloc(t, a, 0, size)
		if addr%512 != 0 {
			t.Errorf("a block of %v at %#x is not aligned", size, uint64(addr))
		}
		must(t, a.Free(addr))
	}
	must(t, a.Check())
	if s := a.Stats(); s.Allocated != 0 || s.Requests != 9 {
		t.Errorf("%v live after everything was freed, %d requests", s.Allocated, s.Requests)
	}
}

// TestUnknown asks for the end of blocks that are none, without a plan and under one.
func TestUnknown(t *testing.T) {
	a := open(t, stalloc.Options{Planning: stalloc.PlanAtStep})
	foreign := func(when string, addrs ...stalloc.Addr) {
		t.Helper()
		before := a.Stats()
		for _, addr := range addrs {
			is(t, a.Free(addr), stalloc.ErrUnknown, "not a live block")
			is(t, a.Record(addr, 9), stalloc.ErrUnknown, "not a live block")
		}
		must(t, a.Check())
		after := a.Stats()
		if after.Allocated != before.Allocated || after.Reserved != before.Reserved {
			t.Errorf("%s: frees of unknown addresses changed %+v into %+v", when, before, after)
		}
	}
	foreign("empty", 1, 512, 0xdead0000, math.MaxUint64)
	x := malloc(t, a, 0, stalloc.MiB)
	foreign("one block", x+1, x+512, x-512, x+stalloc.Addr(stalloc.MiB))
	must(t, a.Free(x))
	foreign("freed", x)
	var planned []stalloc.Addr
	for range 4 {
		planned = []stalloc.Addr{malloc(t, a, 0, 3*stalloc.MiB), malloc(t, a, 0, stalloc.MiB)}
		must(t, a.Free(planned[0]), a.Free(planned[1]), a.Step())
	}
	if s := a.Stats(); s.Hits == 0 {
		t.Fatalf("nothing was planned: %+v", s)
	}
	foreign("planned ones freed", planned[0], planned[1], planned[0]+512)
	y := malloc(t, a, 0, 3*stalloc.MiB) // at the same place
	foreign("one planned", y+512)
	must(t, a.Free(y))
	foreign("planned one freed twice", y, y)
}

func TestOutOfMemory(t *testing.T) {
	a := open(t, stalloc.Options{Simulated: 64 * stalloc.MiB})
	x := malloc(t, a, 0, 40*stalloc.MiB)
	_, err := a.Malloc(0, 32*stalloc.MiB)
	is(t, err, stalloc.ErrOutOfMemory, "32.00 MiB",
		"in live blocks                        40.00 MiB", "of 64.00 MiB")
	must(t, a.Free(x))
	must(t, a.Free(malloc(t, a, 0, 64*stalloc.MiB)), a.Check())

	limited := open(t, stalloc.Options{Limit: 16 * stalloc.MiB})
	must(t, limited.Free(malloc(t, limited, 0, 16*stalloc.MiB)))
	_, err = limited.Malloc(0, 17*stalloc.MiB)
	is(t, err, stalloc.ErrOutOfMemory, "17.00 MiB alone is more than the limit, 16.00 MiB")
}

func TestStreams(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: stalloc.GiB, Manual: true})
	a := open(t, stalloc.Options{Device: gpu})
	x := malloc(t, a, 1, 20*stalloc.MiB)
	must(t, gpu.Use(2, x, 20*stalloc.MiB), a.Record(x, 2), a.Record(x, 1), a.Free(x))
	if s := a.Stats(); s.Active != 20*stalloc.MiB || s.Allocated != 0 {
		t.Fatalf("%v active and %v allocated, want 20 MiB and none", s.Active, s.Allocated)
	}
	if y := malloc(t, a, 1, 20*stalloc.MiB); y == x {
		t.Error("a block was handed out again while another stream uses it")
	}
	gpu.Finish(2)
	if z := malloc(t, a, 1, 20*stalloc.MiB); z != x {
		t.Errorf("the block at %#x waits for nobody, but %#x was handed out", uint64(x), uint64(z))
	}
	if z := malloc(t, a, 3, 20*stalloc.MiB); z == x {
		t.Error("a live block was handed out to another stream")
	}
	for _, v := range gpu.Violations() {
		t.Error(v)
	}
}

// TestCloseGivesEverythingBack with blocks live in the pool and in a plan.
func TestCloseGivesEverythingBack(t *testing.T) {
	gpu := sim.New(sim.Config{Capacity: stalloc.GiB})
	a := open(t, stalloc.Options{Device: gpu, Planning: stalloc.PlanAtStep})
	for range 4 {
		must(t, a.Free(malloc(t, a, 0, 5*stalloc.MiB)), a.Step())
	}
	malloc(t, a, 0, 5*stalloc.MiB)
	malloc(t, a, 7, 5*stalloc.MiB)
	before := gpu.Used()
	must(t, a.Close()) // sim's Close tells what was leaked
	if used := gpu.Used(); used != 0 || before < 10*stalloc.MiB {
		t.Errorf("%v of %v are still in use", used, before)
	}
}

func TestClosed(t *testing.T) {
	a := open(t, stalloc.Options{})
	x := malloc(t, a, 0, stalloc.MiB)
	must(t, a.Close(), a.Close())
	_, err := a.Malloc(0, stalloc.MiB)
	for _, err := range []error{err, a.Free(x), a.Record(x, 1), a.Step(), a.Trim(), a.Check(),
		a.Save("nowhere"), a.SetMemoryFraction(1)} {
		is(t, err, stalloc.ErrClosed)
	}
	if s := a.Stats(); s != (stalloc.Stats{}) {
		t.Errorf("statistics of a closed allocator: %+v", s)
	}
	if text := a.Explain(); text != stalloc.ErrClosed.Error() {
		t.Errorf("a closed allocator explains: %q", text)
	}
}

// TestCloseWhileInUse: calls end with an answer or with ErrClosed, none hangs.
func TestCloseWhileInUse(t *testing.T) {
	for range 20 {
		a := open(t, stalloc.Options{})
		var wg sync.WaitGroup
		var served atomic.Int64
		for stream := range stalloc.Stream(4) {
			wg.Go(func() {
				for {
					x, err := a.Malloc(stream, stalloc.MiB)
					if err == nil {
						served.Add(1)
						err = errors.Join(a.Free(x), a.Step())
					}
					if err != nil {
						is(t, err, stalloc.ErrClosed)
						return
					}
				}
			})
		}
		for served.Load() == 0 {
			time.Sleep(100 * time.Microsecond)
		}
		must(t, a.Close())
		wg.Wait()
	}
}

func TestTrim(t *testing.T) {
	a := open(t, stalloc.Options{Planning: stalloc.PlanNever})
	must(t, a.Free(malloc(t, a, 0, 50*stalloc.MiB)))
	if s := a.Stats(); s.Reserved < 50*stalloc.MiB {
		t.Errorf("%v reserved, want 50 MiB kept for the next request", s.Reserved)
	}
	must(t, a.Trim())
	if s := a.Stats(); s.Reserved != 0 {
		t.Errorf("%v reserved after everything was given back", s.Reserved)
	}
}

func TestMemoryFraction(t *testing.T) {
	a := open(t, stalloc.Options{Simulated: stalloc.GiB})
	must(t, a.SetMemoryFraction(0.5))
	_, err := a.Malloc(0, 600*stalloc.MiB)
	is(t, err, stalloc.ErrOutOfMemory)
	must(t, a.SetMemoryFraction(1), a.Free(malloc(t, a, 0, 600*stalloc.MiB)))
	if err := a.SetMemoryFraction(1.5); err == nil {
		t.Error("a fraction above 1 is accepted")
	}
}

func TestPlanFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "plan")
	a := open(t, stalloc.Options{PlanFile: path})
	is(t, a.Save(path), stalloc.ErrNoPlan, path)

	text := filepath.Join(folder, "notes.txt")
	must(t, os.WriteFile(text, []byte("buy milk\n"), 0o644))
	_, err := stalloc.Open(stalloc.Options{Simulated: stalloc.GiB, PlanFile: text})
	if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(),
		"not a plan file") {
		t.Errorf("a text file as a plan: %v", err)
	}
	if _, err := stalloc.Open(stalloc.Options{Simulated: stalloc.GiB, PlanFile: text,
		Planning: stalloc.PlanNever}); err != nil {
		t.Errorf("the plan file is looked at where nothing is planned: %v", err)
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]stalloc.Options{
		"Options.Simulated is -1 B": {Simulated: -1},
		"Options.Limit -1 B":        {Limit: -1},
		"Options.Planning is 9":     {Simulated: stalloc.GiB, Planning: 9},
		"no address space for the pool": {Device: devicetest.NewFault(sim.New(sim.Config{}), 1,
			devicetest.Rule{Kind: devicetest.CallReserve, Chance: 1, Code: 2})},
		"cuMemAddressReserve failed with": {Device: devicetest.NewFault(sim.New(sim.Config{}), 1,
			devicetest.Rule{Kind: devicetest.CallReserve, Chance: 1, Code: 719})},
	} {
		if a, err := stalloc.Open(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gave %v, %v, want an error that says %q", o, a, err, want)
		}
	}
}

// known is a simulated device with the UUID of a real one.
type known struct {
	*sim.Device
	err error
}

func (k known) UUID() (string, error) { return "0000-11", k.err }

func TestHolders(t *testing.T) {
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		device  stalloc.Device
		ask     func(string) ([]stalloc.Holder, error)
		says    string
		mustNot string
	}{
		"told": {known{Device: sim.New(sim.Config{})}, func(uuid string) ([]stalloc.Holder, error) {
			return []stalloc.Holder{{PID: 77, Name: uuid, Used: stalloc.GiB}}, nil
		}, "1.00 GiB  0000-11", ""},
		"not told": {known{Device: sim.New(sim.Config{})}, func(string) ([]stalloc.Holder,
			error) {
			return nil, lost
		}, "may be missing: lost", "process 77"},
		"no identity": {known{sim.New(sim.Config{}), lost}, func(string) ([]stalloc.Holder,
			error) {
			return []stalloc.Holder{{PID: 77}}, nil
		}, "", "process 77"},
		"no UUID": {sim.New(sim.Config{}), func(string) ([]stalloc.Holder,
			error) {
			return []stalloc.Holder{{PID: 77}}, nil
		}, "", "process 77"},
		"a panic": {known{Device: sim.New(sim.Config{})}, func(string) ([]stalloc.Holder,
			error) {
			panic("nothing")
		}, "asking for them failed: nothing", "process 77"},
	} {
		a := open(t, stalloc.Options{Device: c.device, Holders: c.ask})
		text := a.Explain()
		if !strings.Contains(text, "held by stalloc") || !strings.Contains(text, c.says) ||
			c.mustNot != "" && strings.Contains(text, c.mustNot) {
			t.Errorf("%s: explained as %q", name, text)
		}
	}
}

// TestLog: what other processes hold is told at the start where it is logged, and
// not asked where it is not.
func TestLog(t *testing.T) {
	asked := make(chan string, 1)
	ask := func(uuid string) ([]stalloc.Holder, error) {
		asked <- uuid
		return []stalloc.Holder{{PID: 77}}, nil
	}
	core, logged := observer.New(zap.InfoLevel)
	open(t, stalloc.Options{Device: known{Device: sim.New(sim.Config{})}, Holders: ask,
		Log: zap.New(core)})
	if uuid := <-asked; uuid != "0000-11" {
		t.Errorf("asked about %q", uuid)
	}
	told := func() int { return logged.FilterMessage("memory of the device at the start").Len() }
	for told() == 0 { // a goroutine of its own asks and tells
		time.Sleep(time.Millisecond)
	}
	if n := told(); n != 1 {
		t.Errorf("told %d times: %v", n, logged.All())
	}
	quiet, _ := observer.New(zap.WarnLevel)
	open(t, stalloc.Options{Device: known{Device: sim.New(sim.Config{})}, Holders: ask,
		Log: zap.New(quiet)})
	if len(asked) != 0 {
		t.Error("asked though nobody listens")
	}
}
