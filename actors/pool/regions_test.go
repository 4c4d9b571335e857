package pool

import (
	"errors"
	"fmt"
	"testing"

	"stalloc/internal/mem"
)

// TestRegionsAreForgotten: of regions that hold nothing any more some names are known, and nothing
// else; those that hold something stay, and one that was forgotten begins anew.
func TestRegionsAreForgotten(t *testing.T) {
	const many, trims = 5000, 50
	k := newKit(t)
	in := func(name string) mem.Addr {
		t.Helper()
		region, err := Region(name)
		if err != nil {
			t.Fatal(err)
		}
		return k.malloc(0, region, mem.MiB)
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
	if held, here := len(k.policy.Regions()), len(k.regions); held != 1 || here != 1 {
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
