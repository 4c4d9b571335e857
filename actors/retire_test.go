package actors

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"stalloc/cuda/sim"
	"stalloc/internal/mem"
)

// TestRetired: what lives when a device is closed stays and is freed as ever, everything
// else goes back to the driver, and nothing more is served.
func TestRetired(t *testing.T) {
	k := newKit(t, Options{})
	k.learn(tens(4)...)
	keep, late := k.malloc(3*mem.MiB), k.malloc(30*mem.MiB)
	if err := k.Record(late, 0x2000); err != nil {
		t.Fatal(err)
	}
	private, err := k.Serve(0, 7, 5*mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := k.Retire(); err != nil {
			t.Fatal(err)
		}
	}
	live := 38 * mem.MiB
	if s := k.Stats(); s.Stats.Load != live || s.Reserved < live ||
		s.Reserved > live+3*mem.HandleSize {
		t.Errorf("%v are live, %v are reserved", s.Stats.Load, s.Reserved)
	}
	if _, err := k.Malloc(0, mem.MiB); !errors.Is(err, ErrRetired) {
		t.Errorf("a request is answered with %v", err)
	}
	if at, size, err := k.Find(keep + 512); at != keep || size != 3*mem.MiB || err != nil {
		t.Errorf("the live block is %v at %#x: %v", size, at, err)
	}
	k.boundary()
	k.release(late) // waits for the other stream's work, as the driver would
	if s := k.Stats(); s.Pending != 0 || s.Reserved >= live {
		t.Errorf("%v wait, %v are reserved", s.Pending, s.Reserved)
	}
	k.release(keep)
	if _, err := k.Free(private); err != nil {
		t.Fatal(err)
	}
	if err := k.Trim(7); err != nil { // the graph is gone
		t.Fatal(err)
	}
	if s := k.Stats(); s.Reserved != 0 {
		t.Errorf("%v are reserved after the last free", s.Reserved)
	}
	if err := k.Release(keep); !errors.Is(err, ErrUnknown) {
		t.Errorf("the second free of a block: %v", err)
	}
	k.empty()
}

// TestRetiredIsResumed: what sleeps when a device is closed comes back, though it is more than a
// limit that was set before: none can be set any more.
func TestRetiredIsResumed(t *testing.T) {
	k := newKit(t, Options{})
	at := k.malloc(30 * mem.MiB)
	for _, err := range []error{k.Limit(0), k.Pause(nil, false), k.Retire(), k.Resume(nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s := k.Stats(); s.Asleep != 0 {
		t.Errorf("%v sleep", s.Asleep)
	}
	k.release(at)
	k.empty()
}

// TestRetireKeepsThePlan: steps that nobody has looked at are, and the plan of a run that
// ends early is kept.
func TestRetireKeepsThePlan(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{Capacity: 8 * mem.GiB}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Local: l, t: t}
	for range 3 {
		k.play(tens(4)...)
		k.boundary()
	}
	if err := k.Retire(); err != nil {
		t.Fatal(err)
	}
	if k.Plan() == nil {
		t.Error("there is no plan to save")
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// TestRetireAmongRequests: threads that ask while the device is closed are served or told so.
func TestRetireAmongRequests(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{Capacity: 8 * mem.GiB}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var threads sync.WaitGroup
	begun := make(chan struct{}, 4)
	for i := range mem.StreamID(4) {
		threads.Go(func() {
			for n := 0; ; n++ {
				addrs := make([]mem.Addr, 0, 8)
				var err error
				for err == nil && len(addrs) < 8 {
					var addr mem.Addr
					if addr, err = l.Malloc(i*0x1000, mem.Bytes(1+len(addrs))*mem.MiB); err == nil {
						addrs = append(addrs, addr)
					}
				}
				if err != nil && !errors.Is(err, ErrRetired) {
					t.Error(err)
				}
				for _, addr := range slices.Backward(addrs) {
					if err := l.Release(addr); err != nil {
						t.Error(err)
					}
				}
				if err != nil {
					return
				}
				if err := l.Step(); err != nil {
					t.Error(err)
				}
				if n == 10 {
					begun <- struct{}{}
				}
			}
		})
	}
	<-begun
	if err := l.Retire(); err != nil {
		t.Error(err)
	}
	threads.Wait()
	if s := l.Stats(); s.Reserved != 0 || s.Load != 0 {
		t.Errorf("%v are reserved for %v", s.Reserved, s.Load)
	}
	if err := errors.Join(l.Check(), l.Close()); err != nil {
		t.Error(err)
	}
}
