package plan

import (
	"math"
	"math/rand/v2"
)

// portfolio is the fixed priorities tried first, best ones for training steps
// in front. Big and long boxes are hard to place late, so most put them first.
var portfolio = []struct {
	name string
	w    Weights
}{
	{"duration", Weights{Duration: 1}},
	{"area", Weights{Duration: 1, Size: 1}},
	{"load, area", Weights{Load: 100, Duration: 1, Size: 1}},
	{"size", Weights{Size: 1}},
	{"size, duration", Weights{Size: 1, Duration: 1e-3}},
	{"duration, size", Weights{Size: 1e-3, Duration: 1}},
	{"load, duration", Weights{Load: 100, Duration: 1}},
	{"load, size", Weights{Load: 100, Size: 1}},
	{"earliest", Weights{Lower: -1}},
	{"latest end", Weights{Upper: 1}},
	{"first fit by size", Weights{Fit: true, Size: 1}},
	{"first fit by size, mirrored", Weights{Fit: true, Size: 1, Mirror: true}},
	{"first fit by size, duration", Weights{Fit: true, Size: 1, Duration: 1e-3}},
	{"first fit by duration", Weights{Fit: true, Duration: 1}},
	{"first fit by area", Weights{Fit: true, Duration: 1, Size: 1}},
	{"first fit by start", Weights{Fit: true, Lower: -1}},
}

// search looks for a placement of one piece.
type search struct {
	p      *piece
	rank   *ranker
	sky    *descent
	fit    *fit
	goal   int64 // stop here
	budget int   // placements left
	used   int

	best   int64
	offset []int64 // of the best
	order  string
	w      Weights
}

func newSearch(p *piece, goal int64, budget int) *search {
	return &search{
		p: p, rank: newRanker(p), sky: newDescent(p), fit: newFit(p), goal: goal, budget: budget,
		best: math.MaxInt64, offset: make([]int64, len(p.ids)),
	}
}

func (s *search) done() bool { return s.best <= s.goal || s.budget <= 0 }

// try places the piece by w and keeps the result if it is the best.
func (s *search) try(name string, w Weights) bool {
	s.budget--
	s.used++
	order := s.rank.rank(s.p, w)
	top, ok, offset := int64(0), false, s.sky.offset
	if w.Fit {
		top, ok = s.fit.run(order, s.best)
		offset = s.fit.offset
	} else {
		top, ok = s.sky.run(order, s.best)
	}
	if ok {
		s.best, s.order, s.w = top, name, w
		copy(s.offset, offset)
	}
	return ok
}

// run tries the warm priority, the portfolio, then random priorities and steps
// away from the best one, until the goal or the end of the budget.
func (s *search) run(warm *Weights, rng *rand.Rand) {
	if warm != nil && *warm != (Weights{}) {
		s.try("warm", *warm)
	}
	for _, c := range portfolio {
		if s.done() {
			return
		}
		s.try(c.name, c.w)
	}
	sigma := 0.5
	for round := 0; !s.done(); round++ {
		if round%4 == 0 {
			s.try("random", randomWeights(rng))
			continue
		}
		if s.try("climbed", s.w.step(rng, sigma)) {
			sigma = 0.5
		} else {
			sigma = max(sigma*0.97, 0.01)
		}
	}
}

func (w *Weights) list() []*float64 {
	return []*float64{&w.Size, &w.Duration, &w.Load, &w.Lower, &w.Upper}
}

func randomWeights(rng *rand.Rand) Weights {
	var w Weights
	for i, f := range w.list() {
		*f = rng.NormFloat64()
		if i < 2 {
			*f = math.Abs(*f)
		}
	}
	w.Mirror = rng.IntN(2) == 0
	w.Fit = rng.IntN(4) == 0
	return w
}

// step returns w with each weight moved by about sigma of the largest.
func (w Weights) step(rng *rand.Rand, sigma float64) Weights {
	largest := 0.0
	for _, f := range w.list() {
		largest = max(largest, math.Abs(*f))
	}
	for _, f := range w.list() {
		*f = (*f/largest + sigma*rng.NormFloat64())
	}
	return w
}
