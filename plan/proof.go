package plan

import (
	"math/rand/v2"
	"slices"
)

// mostExact is the largest piece that exact search is tried on: a node costs
// time in proportion to the piece.
const mostExact = 2000

// restart is the budget of one exact search, in nodes per box. Whether an order
// leads to a placement shows early or not for a very long time, so many short
// searches under different orders do better than a long one.
const restart = 8

// proof runs short exact searches, with time forward and backward in turn. It
// aims now at the goal, now between it and the best placement, since not every
// piece can reach its goal.
type proof struct {
	forward, backward *exact
	round             int
}

func newProof(p *piece) *proof {
	return &proof{forward: newExact(p), backward: newExact(p.mirrored())}
}

func (m *proof) step(s *search, rng *rand.Rand) {
	aim := s.goal + (s.best-1-s.goal)*int64(m.round/2%4)/4
	e := m.forward
	if m.round%2 == 1 {
		e = m.backward
	}
	m.round++
	order := s.rank.rank(s.p, randomWeights(rng))
	nodes := restart * len(order)
	found := e.run(order, aim, nodes)
	s.used += 1 + (nodes-e.budget)/len(order)
	switch {
	case found:
		var top int64
		for i, at := range e.offset {
			top = max(top, at+s.p.size[i])
		}
		s.keep("exact", top, e.offset)
	case e.budget > 0:
		s.goal = aim + 1 // proved: nothing ends lower
	}
}

// mirrored returns the piece with time reversed.
func (p *piece) mirrored() *piece {
	q := &piece{
		ids: p.ids, size: p.size, ticks: p.ticks, base: p.base, bound: p.bound,
		load: slices.Clone(p.load), floor: slices.Clone(p.floor),
		lo: make([]int32, len(p.ids)), hi: make([]int32, len(p.ids)),
	}
	slices.Reverse(q.load)
	slices.Reverse(q.floor)
	for i := range p.ids {
		q.lo[i], q.hi[i] = p.ticks-p.hi[i], p.ticks-p.lo[i]
	}
	return q
}
