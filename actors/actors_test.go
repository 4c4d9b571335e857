package actors

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
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

// TestContention has many threads ask the pool while it works for one of them.
func TestContention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpu := sim.New(sim.Config{})
		l, err := OpenLocal(slowly{device.NewOwner(gpu)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
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

// TestFencesAreAskedFor frees a block that another stream uses: it is handed out
// again after that stream has passed, and messages of any kind find out.
func TestFencesAreAskedFor(t *testing.T) {
	k := newKit(t, Options{NoPlan: true})
	at := k.malloc(6 * mem.MiB)
	if err := k.Use(at, 5); err != nil {
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
	if s := k.Stats(); s.Pending != 0 { // the first message behind it
		t.Errorf("%v are pending after the stream has passed", s.Pending)
	}
	k.release(other)
	k.empty()
}

// fragile is a port that panics as often as its host says.
type fragile struct {
	*GoPort
	h *fragileHost
}

func (f fragile) HandOut(addr mem.Addr, asked mem.Bytes) {
	burn(&f.h.handOut)
	f.GoPort.HandOut(addr, asked)
}

func (f fragile) Settle() {
	burn(&f.h.settle)
	f.GoPort.Settle()
}

func burn(fuse *int) {
	if *fuse > 0 {
		*fuse--
		panic("the fuse has blown")
	}
}

type fragileHost struct {
	*GoHost
	handOut, settle int
}

func (h *fragileHost) Ports() (ports []Port) {
	for _, p := range h.GoHost.Ports() {
		ports = append(ports, fragile{p.(*GoPort), h})
	}
	return ports
}

// TestStreamIsRestarted has a stream actor fail more often than protoactor would
// restart it by itself. Every request is answered, and the slots it served are not
// lost.
func TestStreamIsRestarted(t *testing.T) {
	h := &fragileHost{GoHost: NewGoHost()}
	d, err := Open(device.NewOwner(sim.New(sim.Config{})), h, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	k := &kit{Local: NewLocal(d, h.GoHost), t: t}
	k.learn(tens(4)...)
	for range 8 {
		h.handOut = 4
		for _, size := range tens(4) {
			if at, _ := k.lookUp(k.lane().port, k.lane(), size); at != 0 {
				t.Fatalf("%#x was served by a failing actor", uint64(at))
			}
		}
		if n := k.lane().serving.tape.State.LiveN; n != 0 || h.handOut != 0 {
			t.Fatalf("%d slots are live that nobody has, %d panics are left", n, h.handOut)
		}
		k.boundary()
	}
	live := k.malloc(tens(4)[0])
	h.settle = 15
	for range 15 { // a stream that cannot end its step keeps no other from it
		k.boundary()
	}
	if h.settle != 0 {
		t.Errorf("%d panics are left", h.settle)
	}
	k.release(live)
	k.learn(tens(4)...)
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
	l, err := OpenLocal(exploding{device.NewOwner(gpu)}, Options{})
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
		{func() error { return l.Use(1<<40, 3) }, ErrBroken},
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

// TestCloseEndsEverything closes a device while an arena is mapped ahead and a plan
// may be in the making. The bubble ends only when every goroutine has.
func TestCloseEndsEverything(t *testing.T) {
	for steps := 1; steps < 8; steps++ {
		synctest.Test(t, func(t *testing.T) {
			gpu := sim.New(sim.Config{})
			l, err := OpenLocal(slowly{device.NewOwner(gpu)}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for range steps {
				var at []mem.Addr
				for _, size := range tens(20) { // above prepareFrom
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
