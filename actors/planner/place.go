package planner

import (
	"cmp"
	"slices"

	"stalloc/actors/step"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/plan/descent"
	"stalloc/stream/schedule"
)

// place gives the requests of a step offsets in the gaps that the range had at its end; nil: that
// cannot be. base is where the window begins.
func place(a *step.ArenaStep, base mem.Addr) []schedule.Entry {
	if len(a.Gaps) == 0 {
		return nil
	}
	if a.Arena.Small { // those cost no memory worth a plan: each goes where it lay
		return whereTheyLay(a, base)
	}
	if list := solve(a, base); list != nil {
		return list
	}
	// What stays may lie so that no plan fits around it. The step itself has fitted: then each
	// block goes where it lay, but for those that had a view. Not if other streams' work decides
	// when blocks end.
	if a.Late() {
		return nil
	}
	return whereTheyLay(a, base)
}

// placeLoaded is place of a step of an earlier run, whose own addresses were others, in the gaps
// that another one has left.
func placeLoaded(s plan.Step, now *step.ArenaStep, base mem.Addr) []schedule.Entry {
	if len(now.Gaps) == 0 {
		return nil
	}
	return solve(&step.ArenaStep{Arena: now.Arena, Step: s, Gaps: now.Gaps, End: s.End()}, base)
}

// whereTheyLay are the requests at the offsets that they had, where they lie in a gap.
func whereTheyLay(a *step.ArenaStep, base mem.Addr) []schedule.Entry {
	list := make([]schedule.Entry, len(a.Requests))
	for i, r := range a.Requests {
		list[i] = schedule.Of(uint64(r.Size/mem.Grain), 0)
		if a.Arena.Small || within(a.Gaps, base+mem.Addr(r.At), r.Size) {
			list[i] = entry(r.Size, r.At)
		}
	}
	return list
}

func entry(size mem.Bytes, at mem.Offset) schedule.Entry {
	return schedule.Of(uint64(size/mem.Grain), uint64(at)/uint64(mem.Grain))
}

// within reports whether all of a block is in one of the gaps, which are in order.
func within(gaps []engine.Range, at mem.Addr, size mem.Bytes) bool {
	i, found := slices.BinarySearchFunc(gaps, at, func(g engine.Range, at mem.Addr) int {
		return cmp.Compare(g.Addr, at)
	})
	if !found {
		i--
	}
	return i >= 0 && at+mem.Addr(size) <= gaps[i].Addr+mem.Addr(gaps[i].Size)
}

// solve places the requests in the gaps, from the first one's beginning on; nil: they do not fit.
func solve(a *step.ArenaStep, base mem.Addr) []schedule.Entry {
	first, last := a.Gaps[0], a.Gaps[len(a.Gaps)-1]
	gaps := make([]descent.Gap, len(a.Gaps))
	for i, g := range a.Gaps {
		gaps[i] = descent.Gap{From: mem.Offset(g.Addr - first.Addr), Size: g.Size}
	}
	goal := mem.Bytes(last.Addr-first.Addr) + last.Size
	x := descent.Place(a.Buffers(a.End), gaps, goal)
	if x.Makespan > goal {
		return nil
	}
	list := make([]schedule.Entry, len(a.Requests))
	for i, r := range a.Requests {
		list[i] = entry(r.Size, mem.Offset(first.Addr-base)+x.Offsets[i])
	}
	return list
}
