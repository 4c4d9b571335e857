package pool

import (
	"errors"
	"fmt"
	"testing"

	"stalloc/actors/region"
	"stalloc/internal/mem"
)

// TestRegionsAreForgotten: of regions that hold nothing any more the names are known, and nothing
// else; those that hold something stay, and one that was forgotten begins anew.
func TestRegionsAreForgotten(t *testing.T) {
	const many, trims = 5000, 50
	k := newKit(t)
	in := func(name string) mem.Addr {
		t.Helper()
		number, err := region.Number(name)
		if err != nil {
			t.Fatal(err)
		}
		return k.malloc(0, number, mem.MiB)
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
	if held := len(k.policy.Regions()); held != 1 {
		t.Errorf("%d regions may hold something; one does", held)
	}
	for name, known := range map[string]bool{"test: stays": true, "test: 0": true,
		"test: -1": false} {
		if _, err := region.Numbers([]string{name}); (err == nil) != known || err != nil &&
			!errors.Is(err, region.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	again := in("test: 0")
	pools, err := region.Numbers([]string{"test: 0", "test: stays"})
	if err := errors.Join(err, k.Pause(pools, false), k.Resume(pools)); err != nil {
		t.Error(err)
	}
	k.release(stays)
	k.release(again)
	if err := k.Trim(0); err != nil || k.gpu.Used() != 0 {
		t.Errorf("%v are held: %v", k.gpu.Used(), err)
	}
}
