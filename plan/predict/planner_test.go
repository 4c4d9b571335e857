package predict

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// TestPlanner: places are found for what is known and to come, around obstacles; a problem
// that was solved is not solved again, until four others were.
func TestPlanner(t *testing.T) {
	var p Planner
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
		offsets, top := p.Plan(now, positions, obstacles, goal)
		if err := check(now, positions, obstacles, offsets, top); err != nil {
			t.Fatal(err)
		}
		return top
	}
	if top := plan(1, 0); top != 5*mem.MiB {
		t.Errorf("the plan ends at %v", top)
	}
	first, _ := p.Plan(1, positions, obstacles, 0)
	if want := []mem.Offset{Nowhere, 2 * mib, Nowhere, mib}; !slices.Equal(first, want) {
		t.Errorf("offsets %v, expected %v", first, want)
	}
	for goal := range mem.Bytes(cached) {
		plan(1, goal)
	}
	if p.Solved != cached || p.Reused != 2 {
		t.Errorf("%d solved, %d again", p.Solved, p.Reused)
	}
	plan(1, cached) // in the place of goal 0, the oldest
	plan(1, 1)
	plan(1, 0)
	plan(3, 0)
	if p.Solved != cached+3 || p.Reused != 3 {
		t.Errorf("%d solved, %d again", p.Solved, p.Reused)
	}
	positions = positions[:1]
	if top := plan(1, 0); top != 0 {
		t.Errorf("nothing to plan ends at %v", top)
	}
}
