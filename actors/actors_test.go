package actors

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors/device"
	"stalloc/actors/host"
	"stalloc/actors/pool"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// slowly is a device on which making and opening memory takes the bubble's time.
type slowly struct{ device.Device }

func (s slowly) Create(size mem.Bytes) (driver.Handle, error) {
	time.Sleep(time.Millisecond)
	return s.Device.Create(size)
}

func (s slowly) Access(addr mem.Addr, size mem.Bytes) error {
	time.Sleep(time.Millisecond)
	return s.Device.Access(addr, size)
}

// bubbled is a host whose lock a bubble of time sees through: the pool has it while the
// device sleeps.
type bubbled struct {
	*host.Model
	lock chan struct{}
}

func (h *bubbled) Lock() { h.lock <- struct{}{} }

func (h *bubbled) Unlock() { <-h.lock }

// openSlowly opens an allocator over a slow device, in a bubble.
func openSlowly(t *testing.T, gpu *sim.Device) *Local {
	t.Helper()
	h := &bubbled{host.NewModel(), make(chan struct{}, 1)}
	d, err := Open(slowly{gpu}, h, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return NewLocal(d, h.Model)
}

// TestContention has many threads ask the pool while it works for one of them.
func TestContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := openSlowly(t, sim.New(sim.Config{}))
		var mu sync.Mutex
		held := map[mem.Addr]bool{}
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				for n := range 20 {
					at, err := l.Malloc(mem.StreamID(i%4), mem.Bytes(n+1)*mem.MiB)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					if held[at] {
						t.Errorf("%#x was handed out twice", uint64(at))
					}
					held[at] = true
					mu.Unlock()
					time.Sleep(time.Microsecond)
					mu.Lock()
					delete(held, at)
					mu.Unlock()
					if err := l.Release(at); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := errors.Join(l.Check(), l.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestFencesAreAskedFor frees a block that another stream uses: it is handed out again
// once that stream has passed, to the first request that can use it.
func TestFencesAreAskedFor(t *testing.T) {
	k := newKit(t, Options{})
	at := k.malloc(6 * mem.MiB)
	if err := k.Record(at, 5); err != nil {
		t.Fatal(err)
	}
	k.release(at)
	if s := k.Stats(); s.Pending != 6*mem.MiB {
		t.Fatalf("%v are pending", s.Pending)
	}
	other := k.malloc(6 * mem.MiB)
	if other == at {
		t.Fatal("the bytes were handed out while another stream used them")
	}
	k.gpu.Finish(5)
	if again := k.malloc(6 * mem.MiB); again != at {
		t.Errorf("a block was made at %#x, that at %#x is free", uint64(again), uint64(at))
	}
	if s := k.Stats(); s.Pending != 0 {
		t.Errorf("%v are pending after the stream has passed", s.Pending)
	}
	k.release(other, at)
	k.empty()
}

// TestFencesPassUnasked: without a request that is short of memory it is known soon that a
// fence has passed, whatever is asked for.
func TestFencesPassUnasked(t *testing.T) {
	var now time.Duration
	k := newKit(t, Options{Without: without.Plans,
		Clock: Clock{Now: func() time.Duration { return now }}})
	at := k.malloc(6 * mem.MiB)
	if err := k.Record(at, 5); err != nil {
		t.Fatal(err)
	}
	k.release(at)
	k.gpu.Finish(5)
	pending := func() (n mem.Bytes) {
		_ = k.onPool(func(p *pool.Pool) error { n = p.Stats().Pending; return nil }, nil)
		return n
	}
	if pending() == 0 {
		t.Error("it was asked about at once")
	}
	now += time.Millisecond
	k.release(k.malloc(mem.KiB))
	if pending() != 0 {
		t.Error("it is not known that the fence has passed")
	}
	k.empty()
}

// fragile is a host that fails as often as it is told to.
type fragile struct {
	*host.Model
	fuse int
}

func (h *fragile) SetSchedule(id mem.StreamID, small int, r *host.Schedule) {
	if h.fuse > 0 {
		h.fuse--
		panic("the fuse has blown")
	}
	h.Model.SetSchedule(id, small, r)
}

// TestStreamSurvivesABug has a stream fail where a plan begins. Requests are served without a
// schedule, and the next plan serves.
func TestStreamSurvivesABug(t *testing.T) {
	logs, log := observer.New(zap.ErrorLevel)
	h := &fragile{Model: host.NewModel()}
	d, err := Open(sim.New(sim.Config{}), h, Options{Inline: true, Log: zap.New(logs)})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Local: NewLocal(d, h.Model), t: t}
	sizes := tens(4)
	k.learn(sizes...)
	h.fuse = 15
	for other := tens(9)[4:]; h.fuse > 0; {
		left := h.fuse
		for i := 0; i < 20 && h.fuse == left; i++ {
			k.play(other...)
			k.boundary()
		}
		if h.fuse == left {
			t.Fatalf("no plan begins, %d panics are left", left)
		}
		if k.stream().Planned() || log.Len() == 0 {
			t.Fatalf("%d failures, and there is a schedule", log.Len())
		}
		sizes, other = other, sizes
	}
	for range 200 { // the more plans have failed, the longer until the next
		k.play(sizes...)
		k.boundary()
	}
	k.learn(sizes...)
	k.empty()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// exploding is a device that panics when asked for memory.
type exploding struct{ device.Device }

func (exploding) Create(mem.Bytes) (driver.Handle, error) { panic("no such luck") }

// TestBrokenPool has the pool lose its state: what needs it says so, what does not goes
// on, and Close still gives back what the device knows of.
func TestBrokenPool(t *testing.T) {
	gpu := sim.New(sim.Config{})
	l, err := OpenLocal(exploding{gpu}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	alloc := func() error { _, err := l.Malloc(0, mem.MiB); return err }
	free := func() error { _, err := l.Free(1 << 41); return err }
	find := func() error { _, _, err := l.Find(1 << 41); return err }
	for i, call := range []struct {
		f    func() error
		want error
	}{
		{alloc, ErrBroken}, {alloc, ErrBroken}, {l.Check, ErrBroken},
		{func() error { return l.Record(1<<40, 3) }, ErrBroken},
		{func() error { return l.Share(1) }, ErrBroken},
		{free, ErrUnknown}, {find, ErrUnknown},
		{func() error { return l.Release(1 << 41) }, ErrUnknown},
		{l.Step, nil}, {l.ResetPeak, nil},
		{func() error { return l.Trim(0) }, nil},
		{func() error { return l.Limit(0.5) }, nil},
	} {
		if err := call.f(); !errors.Is(err, call.want) {
			t.Errorf("call %d: %v, expected %v", i, err, call.want)
		}
	}
	if text := l.Explain(); text == "" {
		t.Error("nothing is explained")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, ErrBroken) {
		t.Errorf("second Close: %v", err)
	}
	if _, _, err := gpu.Memory(); err == nil {
		t.Error("the device is still open")
	}
}

// TestCloseEndsEverything closes a device while a plan may be in the making. The bubble ends only
// when every goroutine has.
func TestCloseEndsEverything(t *testing.T) {
	for steps := 1; steps < 8; steps++ {
		synctest.Test(t, func(t *testing.T) {
			gpu := sim.New(sim.Config{})
			l := openSlowly(t, gpu)
			for range steps {
				var at []mem.Addr
				for _, size := range tens(20) {
					addr, err := l.Malloc(0, size)
					if err != nil {
						t.Fatal(err)
					}
					at = append(at, addr)
				}
				for _, addr := range at {
					if err := l.Release(addr); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Step(); err != nil {
					t.Fatal(err)
				}
				if steps%2 == 0 {
					synctest.Wait()
				}
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			calls := gpu.Stats().Calls()
			time.Sleep(time.Minute)
			if after := gpu.Stats().Calls(); after != calls {
				t.Errorf("%d driver calls after Close", after-calls)
			}
		})
	}
}
