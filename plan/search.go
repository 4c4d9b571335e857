package plan

import (
	"math"
	"math/rand/v2"
)

// portfolio is the fixed priorities tried first. Big and long boxes are hard to
// place late, so most put them in front. The two mixtures came out of a search
// over training graphs that no simple order solves.
var portfolio = []struct {
	name string
	w    Weights
}{
	{"duration", Weights{Duration: 1}},
	{"area", Weights{Duration: 1, Size: 1}},
	{"load, area", Weights{Load: 100, Duration: 1, Size: 1}},
	{"size, load, late", Weights{Size: 1, Duration: 0.5, Load: 1, Lower: 0.5, Upper: 0.5}},
	{"duration, low load", Weights{Size: 0.3, Duration: 1.5, Load: -0.7, Upper: -0.3}},
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
	order  string  // name of the method that found it
	w      Weights // best weights, from which the best may have been promoted
}

func newSearch(p *piece, goal int64, budget int) *search {
	return &search{
		p: p, rank: newRanker(p), sky: newDescent(p), fit: newFit(p), goal: goal, budget: max(budget, 1),
		best: math.MaxInt64, offset: make([]int64, len(p.ids)),
	}
}

func (s *search) done() bool { return s.best <= s.goal || s.used >= s.budget }

// run tries the warm priority, the portfolio, then whatever comes, until the
// goal or the end of the budget.
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
	s.wander(rng)
}

// try places the piece by w and keeps the result if it is the best.
func (s *search) try(name string, w Weights) bool {
	order := s.rank.rank(s.p, w)
	s.used++
	var top int64
	var ok bool
	offset := s.sky.offset
	if w.Fit {
		top, ok = s.fit.run(order, s.best)
		offset = s.fit.offset
	} else {
		top, ok = s.sky.run(order, s.best)
	}
	if ok {
		s.w = w
		s.keep(name, top, offset)
	}
	return ok
}

func (s *search) keep(name string, top int64, offset []int64) {
	s.best, s.order = top, name
	copy(s.offset, offset)
}

// firstSigma is the length of the first steps of a climb, for weights scaled to
// one; steps shrink while nothing better is found.
const firstSigma = 0.5

// wander spends the rest of the budget on four searches in turn: promotion,
// steps away from the best weights, random weights, and where the piece is
// small, exact search.
func (s *search) wander(rng *rand.Rand) {
	var promoted *promotion
	var proof *proof
	sigma := firstSigma
	for round := 0; !s.done(); round++ {
		switch round % 4 {
		case 0:
			if promoted == nil {
				promoted = newPromotion(s)
			}
			promoted.step(s, rng)
		case 1:
			if s.try("climbed", s.w.step(rng, sigma)) {
				sigma = firstSigma
			}
			sigma = max(sigma*0.97, firstSigma/50)
		case 2:
			s.try("random", randomWeights(rng))
		case 3:
			if len(s.p.ids) > mostExact {
				continue
			}
			if proof == nil {
				proof = newProof(s.p)
			}
			proof.step(s, rng)
		}
	}
}

func (w *Weights) list() []*float64 {
	return []*float64{&w.Size, &w.Duration, &w.Load, &w.Lower, &w.Upper}
}

// randomWeights prefers the large and the long, as good priorities do.
func randomWeights(rng *rand.Rand) Weights {
	var w Weights
	for _, f := range w.list() {
		*f = rng.NormFloat64()
	}
	w.Size, w.Duration = math.Abs(w.Size), math.Abs(w.Duration)
	w.Mirror = rng.IntN(2) == 0
	w.Fit = rng.IntN(4) == 0
	return w
}

// step returns w, scaled to one, with each weight moved by about sigma.
func (w Weights) step(rng *rand.Rand, sigma float64) Weights {
	largest := 0.0
	for _, f := range w.list() {
		largest = max(largest, math.Abs(*f))
	}
	for _, f := range w.list() {
		*f = *f/largest + sigma*rng.NormFloat64()
	}
	return w
}
