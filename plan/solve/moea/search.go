package moea

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// Problem is what is to be minimised: so many objectives over a box.
type Problem struct {
	Lower, Upper []float64 // of each variable
	Objectives   int
}

// MostObjectives is how many there may be.
const MostObjectives = 15

// Options say how to search.
type Options struct {
	Evaluations int
	Population  int // rounded up to a multiple of the objectives, and at least twice as many
	Seed        uint64
	First       [][]float64 // evaluated first, before random points
}

// Point is a point that was evaluated.
type Point struct {
	X []float64 // variables
	F []float64 // objectives
}

// Search is a search that runs. Nothing in it depends on when it is told what.
type Search struct {
	p     Problem
	o     Options
	rng   *rand.Rand
	asked [][]float64
	spent int

	population []Point
	corners    []Point
	nadirs     [][]float64 // by generation, until they have settled
	settled    bool
}

// New begins a search.
func New(p Problem, o Options) (*Search, error) {
	switch n := len(p.Lower); {
	case n == 0 || len(p.Upper) != n:
		return nil, fmt.Errorf("moea: %d lower and %d upper bounds: give both for each variable",
			n, len(p.Upper))
	case p.Objectives < 2 || p.Objectives > MostObjectives:
		return nil, fmt.Errorf("moea: %d objectives: give 2 to %d", p.Objectives, MostObjectives)
	case o.Population < 1 || o.Evaluations < 1:
		return nil, fmt.Errorf("moea: a population of %d in %d evaluations: give 1 or more of both",
			o.Population, o.Evaluations)
	}
	for i, low := range p.Lower {
		if !(low <= p.Upper[i]) || math.IsInf(p.Upper[i]-low, 0) {
			return nil, fmt.Errorf("moea: variable %d lies between %v and %v: "+
				"give a finite box, its lower bound first", i, low, p.Upper[i])
		}
	}
	for k, x := range o.First {
		if err := p.holds(x); err != nil {
			return nil, fmt.Errorf("moea: first point %d: %w", k, err)
		}
	}
	m := p.Objectives
	o.Population = max((o.Population+m-1)/m*m, 2*m)
	return &Search{p: p, o: o, rng: rand.New(rand.NewPCG(o.Seed, 6))}, nil
}

func (p *Problem) holds(x []float64) error {
	if len(x) != len(p.Lower) {
		return fmt.Errorf("it has %d variables, the box %d", len(x), len(p.Lower))
	}
	for i, v := range x {
		if !(p.Lower[i] <= v && v <= p.Upper[i]) {
			return fmt.Errorf("variable %d is %v, outside of %v to %v", i, v, p.Lower[i],
				p.Upper[i])
		}
	}
	return nil
}

// Ask returns the points to evaluate next, in any order, at once or one by one: none when the
// search is over. Asked again it returns the same.
func (s *Search) Ask() [][]float64 {
	if s.asked != nil {
		return s.asked
	}
	switch left := s.o.Evaluations - s.spent; {
	case left <= 0:
		return nil
	case s.spent == 0:
		s.asked = s.begin()
		s.asked = s.asked[:min(left, len(s.asked))]
	default:
		s.asked = s.children()
		s.asked = s.asked[:min(left, len(s.asked))]
	}
	return s.asked
}

// begin returns the first points, and random ones beside them.
func (s *Search) begin() (points [][]float64) {
	for _, x := range s.o.First {
		points = append(points, slices.Clone(x))
	}
	for len(points) < s.o.Population {
		x := make([]float64, len(s.p.Lower))
		for i, low := range s.p.Lower {
			x[i] = s.p.within(i, low+float64(s.draw()*(s.p.Upper[i]-low)))
		}
		points = append(points, x)
	}
	return points
}

// within returns the nearest value that a variable may have.
func (p *Problem) within(i int, v float64) float64 { return min(max(v, p.Lower[i]), p.Upper[i]) }

// Tell takes the objectives of the points asked for, in their order.
func (s *Search) Tell(objectives [][]float64) error {
	if len(objectives) != len(s.asked) {
		return fmt.Errorf("moea: the objectives of %d points are told, those of %d were asked for",
			len(objectives), len(s.asked))
	}
	points := slices.Clone(s.population)
	for k, f := range objectives {
		if len(f) != s.p.Objectives {
			return fmt.Errorf("moea: point %v has %d objectives, not %d",
				s.asked[k], len(f), s.p.Objectives)
		}
		for j, v := range f {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("moea: objective %d of point %v is %v: give a finite one",
					j, s.asked[k], v)
			}
		}
		points = append(points, Point{s.asked[k], slices.Clone(f)})
	}
	s.spent += len(s.asked)
	s.asked = nil
	next := selection{points: points, size: s.o.Population}
	next.run()
	s.population, s.corners = next.kept(), next.at(next.corners)
	s.settle(next.nadir)
	return nil
}

// The nadir has settled when, over so many generations, no coordinate of it has moved by more than
// a share of itself for each objective.
const (
	settleGenerations = 50
	settleShare       = 1e-3
)

// settle ends the first phase once the nadir point stays where it is.
func (s *Search) settle(nadir []float64) {
	if s.settled {
		return
	}
	s.nadirs = append(s.nadirs, nadir)
	before := len(s.nadirs) - 1 - s.stallLimit()
	if before < 0 {
		return
	}
	s.settled = true
	for j, v := range s.nadirs[before] {
		most := float64(s.p.Objectives) * settleShare * math.Abs(v)
		s.settled = s.settled && (nadir[j] == v || math.Abs(nadir[j]-v) < most)
	}
}

// stallLimit is how many generations the nadir has to stay: fewer where there are few in all.
func (s *Search) stallLimit() int {
	return min(settleGenerations, 1+s.o.Evaluations/s.o.Population/8)
}

// Front returns the points of the population that none in it is better than.
func (s *Search) Front() []Point { return Front(s.population) }

// Population returns what the search ends with: the front, and points behind it where it has few.
func (s *Search) Population() []Point { return s.population }

// Minimize searches with a function that evaluates some points.
func Minimize(
	p Problem, o Options, evaluate func(points [][]float64) [][]float64,
) (*Search, error) {
	s, err := New(p, o)
	if err != nil {
		return nil, err
	}
	for points := s.Ask(); len(points) > 0; points = s.Ask() {
		if err := s.Tell(evaluate(points)); err != nil {
			return nil, err
		}
	}
	return s, nil
}
