package actors

import (
	"errors"
	"testing"

	"stalloc/actors/region"
	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
)

// TestLakeGivesRegionsBack: GMLake's algorithm, too, returns what is idle of regions and of pools
// that are released.
func TestLakeGivesRegionsBack(t *testing.T) {
	lake := gmlake.DefaultConfig()
	k := newKit(t, Options{GMLake: &lake})
	region, err := region.Number("weights of the lake")
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
	region, err := region.Number("a part that sleeps")
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
