package predict

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// TestPlan: places are found for what is known and to come, around obstacles.
func TestPlan(t *testing.T) {
	positions := []Position{
		{Size: mem.MiB, Begin: 0, End: 9}, // before now
		{Size: 2 * mem.MiB, Begin: 2, End: 5},
		{Begin: 3, End: 4}, // unknown
		{Size: 4 * mem.MiB, Begin: 5, End: 8},
	}
	mib := mem.Offset(mem.MiB)
	obstacles := []Obstacle{{From: 0, To: mib, Until: Never}, {From: mib, To: 2 * mib, Until: 5}}
	plan := func(now mem.Tick, goal mem.Bytes) mem.Bytes {
		t.Helper()
		offsets, top := Plan(now, positions, obstacles, goal)
		if err := check(now, positions, obstacles, offsets, top); err != nil {
			t.Fatal(err)
		}
		return top
	}
	if top := plan(1, 0); top != 5*mem.MiB {
		t.Errorf("the plan ends at %v", top)
	}
	first, _ := Plan(1, positions, obstacles, 0)
	if want := []mem.Offset{Nowhere, 2 * mib, Nowhere, mib}; !slices.Equal(first, want) {
		t.Errorf("offsets %v, expected %v", first, want)
	}
	plan(3, 0)
	positions = positions[:1]
	if top := plan(1, 0); top != 0 {
		t.Errorf("nothing to plan ends at %v", top)
	}
}
