package actors

import (
	"testing"

	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// TestSmallMemoryServesLarge: what small requests have left serves a large one that would
// not find memory else, on the same stream.
func TestSmallMemoryServesLarge(t *testing.T) {
	l, err := OpenLocal(sim.New(sim.Config{Capacity: 64 * mem.MiB}),
		Options{Without: without.Plans})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var small []mem.Addr
	for range 10_000 {
		at, err := l.Malloc(0, 4*mem.KiB)
		if err != nil {
			t.Fatal(err)
		}
		small = append(small, at)
	}
	for _, at := range small {
		if err := l.Release(at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Malloc(0, 60*mem.MiB); err != nil {
		t.Error(err)
	}
}
