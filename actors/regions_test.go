package actors

import (
	"errors"
	"fmt"
	"testing"

	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
)

// TestRegionsAreForgotten: of regions that hold nothing any more some names are known, and nothing
// else; those that hold something stay, and one that was forgotten begins anew.
func TestRegionsAreForgotten(t *testing.T) {
	const many, trims = 5000, 50
	k := newKit(t, Options{})
	in := func(name string) mem.Addr {
		t.Helper()
		pool, err := Region(name)
		if err != nil {
			t.Fatal(err)
		}
		at, err := k.MallocIn(0, pool, mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	stays := in("test: stays")
	for n := range many {
		k.release(in(fmt.Sprint("test: ", n)))
		if n%trims == 0 {
			if err := k.Trim(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := k.Trim(0); err != nil {
		t.Fatal(err)
	}
	if known := len(allRegions()); known > 2*mostForgotten+trims {
		t.Errorf("%d regions are known", known)
	}
	var held, here int
	_ = k.rare(func(p *pool) error {
		held, here = len(p.ranged.Regions()), len(p.regions)
		return nil
	}, nil)
	if held != 1 || here != 1 {
		t.Errorf("%d regions may hold something in the engine, %d in the pool; one does", held,
			here)
	}
	for name, known := range map[string]bool{"test: stays": true,
		fmt.Sprint("test: ", many-1): true, "test: 0": false} {
		if _, err := RegionsOf([]string{name}); (err == nil) != known || err != nil &&
			!errors.Is(err, ErrNoRegion) {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := in("test: 0")
	pools, err := RegionsOf([]string{"test: 0", "test: stays"})
	if err := errors.Join(err, k.Pause(pools, false), k.Resume(pools)); err != nil {
		t.Error(err)
	}
	k.release(stays)
	k.release(again)
	if err := k.Trim(0); err != nil || k.gpu.Used() != 0 {
		t.Errorf("%v are held: %v", k.gpu.Used(), err)
	}
}

// TestLakeGivesRegionsBack: GMLake's algorithm, too, returns what is idle of regions and of pools
// that are released.
func TestLakeGivesRegionsBack(t *testing.T) {
	lake := gmlake.DefaultConfig()
	k := newKit(t, Options{GMLake: &lake})
	region, err := Region("weights of the lake")
	if err != nil {
		t.Fatal(err)
	}
	for _, pool := range []uint64{region, 7} {
		x, err := k.MallocIn(0, pool, 40*mem.MiB)
		if err != nil {
			t.Fatal(err)
		}
		k.release(x)
	}
	if err := errors.Join(k.Trim(7), k.Trim(0)); err != nil {
		t.Fatal(err)
	}
	if used := k.gpu.Used(); used != 0 {
		t.Errorf("%v are held of nothing", used)
	}
}

// TestSleepsInPart: where some of what was meant sleeps it is neither asleep nor awake.
func TestSleepsInPart(t *testing.T) {
	k := newKit(t, Options{})
	region, err := Region("a part that sleeps")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.MallocIn(0, region, 4*mem.MiB); err != nil {
		t.Fatal(err)
	}
	k.malloc(4 * mem.MiB)
	for _, c := range []struct {
		pause     []uint64
		some, all bool
	}{{nil, false, false}, {[]uint64{region}, true, false}, {[]uint64{0}, true, true}} {
		if c.pause != nil {
			if err := k.Pause(c.pause, false); err != nil {
				t.Fatal(err)
			}
		}
		if some, all := k.Sleeps(nil); some != c.some || all != c.all {
			t.Errorf("after %v: some %v, all %v", c.pause, some, all)
		}
	}
	if err := k.Resume(nil); err != nil {
		t.Fatal(err)
	}
}
