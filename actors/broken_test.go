package actors

import (
	"errors"
	"math"
	"testing"

	"stalloc/cuda/sim"
	"stalloc/engine/onerange"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// TestAnySizeIsRefusedPlainly asks for every power of two and its neighbours, with and
// without a limit of the program's own: what does not fit is out of memory, and nothing
// else changes.
func TestAnySizeIsRefusedPlainly(t *testing.T) {
	for _, pool := range []uint64{0, 7} {
		k := newKit(t, Options{})
		keep := k.malloc(3 * mem.MiB)
		k.learn(tens(4)...)
		for _, fraction := range []float64{0.5, 1} {
			if err := k.Limit(fraction); err != nil {
				t.Fatal(err)
			}
			for shift := 34; shift <= 63; shift++ {
				for _, size := range []mem.Bytes{1<<shift - 1, 1 << shift, 1<<shift + 1} {
					if size < 0 { // 2^63 is none
						size = math.MaxInt64
					}
					var err error
					if pool == 0 {
						_, err = k.Malloc(0, size)
					} else {
						_, err = k.Serve(0, pool, size)
					}
					if !errors.Is(err, driver.ErrOutOfMemory) {
						t.Fatalf("%d bytes, pool %d, fraction %v: %v, want out of memory", size,
							pool, fraction, err)
					}
				}
			}
		}
		before := k.Stats().Hits
		k.play(tens(4)...)
		if got := k.Stats().Hits - before; got != 4 {
			t.Errorf("pool %d: %d of 4 requests hit after those that could not be served", pool,
				got)
		}
		k.release(keep)
		k.boundary()
		k.empty()
	}
}

// TestHugeDevice: where a device has terabytes, blocks end where the engine's numbers do.
func TestHugeDevice(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{Capacity: 3 * mem.TiB}), Options{Without: without.Plans})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	small, err := l.Malloc(0, mem.MiB)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []mem.Bytes{mem.TiB, mem.TiB + 1, 2 * mem.TiB, 2*mem.TiB + 1} {
		if _, err := l.Malloc(0, size); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("%v: %v, want out of memory", size, err)
		}
	}
	if err := l.Release(small); err != nil {
		t.Error(err)
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
}

// dying is a device under which a bug shows: Create panics once it is armed.
type dying struct {
	*sim.Device
	armed bool
}

func (d *dying) Create(size mem.Bytes) (driver.Handle, error) {
	if d.armed {
		panic("a bug")
	}
	return d.Device.Create(size)
}

// TestFreesOutliveThePool: where a bug has broken the pool, blocks that live can be
// freed, once, and steps go on.
func TestFreesOutliveThePool(t *testing.T) {
	dev := &dying{Device: sim.New(sim.Config{Capacity: mem.GiB})}
	l, err := OpenLocal(dev, Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var live []mem.Addr
	for n := range mem.Bytes(20) {
		addr, err := l.Malloc(0, (n+1)*mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		live = append(live, addr)
	}
	dev.armed = true
	if _, err := l.Malloc(0, 300*mem.MiB); !errors.Is(err, ErrBroken) {
		t.Fatalf("the bug gave %v", err)
	}
	dev.armed = false
	if _, err := l.Malloc(0, mem.MiB); !errors.Is(err, ErrBroken) {
		t.Errorf("a broken pool was asked and gave %v", err)
	}
	for i, addr := range live {
		if at, size, err := l.Find(addr); err != nil || at != addr ||
			size != mem.Bytes(i+1)*mem.MiB {
			t.Errorf("block %d is %v at %#x, %v", i, size, at, err)
		}
		if err := l.Release(addr); err != nil {
			t.Errorf("block %d cannot be freed: %v", i, err)
		}
		if err := l.Release(addr); !errors.Is(err, ErrUnknown) {
			t.Errorf("block %d was freed twice: %v", i, err)
		}
	}
	for range 3 {
		if err := errors.Join(l.Step(), l.Trim(0), l.Limit(0.5)); err != nil {
			t.Errorf("after the bug: %v", err)
		}
	}
	if load, _ := l.Load(); load != 0 {
		t.Errorf("%v counted as live at the end", load)
	}
	if s := l.Stats(); s.Reserved == 0 || s.Steps < 3 {
		t.Errorf("statistics after the bug: %+v", s)
	}
}

// TestWindows: one that nobody set is the default, and one too small for a block says so.
func TestWindows(t *testing.T) {
	for window, served := range map[mem.Bytes]bool{-1: true, 0: true, 1: false,
		3 * mem.MiB: false} {
		cfg := onerange.DefaultConfig()
		cfg.Window = window
		k := newKit(t, Options{Range: cfg})
		addr, err := k.Malloc(0, 100*mem.MiB)
		switch {
		case !served && !errors.Is(err, driver.ErrOutOfMemory):
			t.Errorf("a window of %d bytes gave %#x, %v", int64(window), uint64(addr), err)
		case served && err != nil:
			t.Errorf("a window of %d bytes: %v", int64(window), err)
		case served:
			k.release(addr)
		}
	}
}

// TestOutOfMemoryIsNoEmptyCache: a request that is refused, step after step, gives back what it
// took. The program has not asked for that, and memory is short: handles stay as fine as
// they were.
func TestOutOfMemoryIsNoEmptyCache(t *testing.T) {
	k := newKit(t, Options{})
	others, err := k.gpu.Create(mem.GiB) // another program's
	if err != nil {
		t.Fatal(err)
	}
	k.malloc(6 * mem.GiB)
	for range 4 {
		if _, err := k.Malloc(0, 2*mem.GiB); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Fatal(err)
		}
		if err := k.Step(); err != nil {
			t.Fatal(err)
		}
	}
	before := k.Stats()
	k.malloc(101 * mem.MiB)
	after := k.Stats()
	if before.Engine.Releases == 0 || after.Reserved-before.Reserved != 102*mem.MiB {
		t.Errorf("%d handles were given back, then %v made for 101 MiB", before.Engine.Releases,
			after.Reserved-before.Reserved)
	}
	if err := k.gpu.Release(others); err != nil {
		t.Error(err)
	}
}
