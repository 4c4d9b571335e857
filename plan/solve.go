package plan

import (
	"math/rand/v2"

	"stalloc/internal/mem"
)

// Solve places the buffers of b. It is deterministic, and stops as soon as the
// makespan is the lower bound.
func Solve(b []Buffer, o Options) Solution { return solvePinned(b, nil, o) }

// solvePinned is Solve where buffers with a non-negative entry in pinned stay
// there. They must be stacked without holes between them at any tick.
func solvePinned(b []Buffer, pinned []mem.Offset, o Options) Solution {
	d := newBoard(b, pinned)
	s := Solution{Offsets: make([]mem.Offset, len(b)), LowerBound: mem.Bytes(d.bound), Order: "trivial"}
	for i := range pinned {
		s.Offsets[i] = max(pinned[i], 0)
	}
	budget := o.Descents
	if budget == 0 {
		budget = defaultDescents(len(d.ids))
	}
	goal := d.bound
	for i, p := range d.pieces(s.Offsets) {
		se := newSearch(p, goal-p.base, budget)
		se.run(o.Warm, rand.New(rand.NewPCG(o.Seed, uint64(i))))
		for k, id := range p.ids {
			s.Offsets[id] = mem.Offset(p.base + se.offset[k])
		}
		s.Descents += se.used
		if top := p.base + se.best; top > goal || s.Order == "trivial" {
			s.Order, s.Weights = se.order, se.w
			goal = max(goal, top)
		}
	}
	for i := range b {
		if !b[i].empty() {
			s.Makespan = max(s.Makespan, mem.Bytes(s.Offsets[i])+b[i].Size)
		}
	}
	return s
}

// defaultDescents spends about a second on one core whatever the size: a
// placement costs about a microsecond a buffer.
func defaultDescents(n int) int { return min(max(1_000_000/max(n, 1), 32), 2000) }
