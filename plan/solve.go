package plan

import (
	"math/rand/v2"

	"stalloc/internal/mem"
)

// Solve places the buffers of b. It is deterministic, and stops as soon as the
// makespan is the lower bound.
func Solve(b []Buffer, o Options) Solution { return solve(b, nil, o) }

// solve is Solve where the buffers named by persists live until the end of the
// problem and are packed together at the base, in the order of their starts.
func solve(b []Buffer, persists []bool, o Options) Solution {
	s := Solution{Offsets: make([]mem.Offset, len(b)), Order: "stack"}
	d := newBoard(b, persists, s.Offsets)
	s.LowerBound = mem.Bytes(d.bound)
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
		if top := p.base + se.best; top > goal || s.Order == "stack" {
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

// defaultDescents spends up to a second on one core whatever the size: a
// placement costs about a microsecond a buffer.
func defaultDescents(n int) int { return min(max(800_000/max(n, 1), 32), 2000) }
