package moea

import (
	"cmp"
	"math"
	"slices"
)

// grain is what values are rounded to where one point is to dominate another.
const grain = 1e-4

// selection chooses who survives.
type selection struct {
	points []Point
	size   int

	ideal, nadir []float64
	corners      []int
	chosen       []int
}

// run fills in the rest.
func (s *selection) run() {
	best := s.nondominated()
	s.findCorners(best)
	if len(best) <= s.size {
		s.chosen = best
		s.fill(func(i int) bool { return !slices.Contains(best, i) })
		return
	}
	var inside []int
	for _, i := range best {
		if s.isInside(i) {
			inside = append(inside, i)
		}
	}
	if len(inside) <= s.size {
		s.chosen = inside
		s.fill(func(i int) bool { return slices.Contains(best, i) && !s.isInside(i) })
		return
	}
	s.byAngle(inside)
}

func (s *selection) at(which []int) (out []Point) {
	for _, i := range which {
		out = append(out, s.points[i])
	}
	return out
}

func (s *selection) kept() []Point { return s.at(s.chosen) }

// isInside reports whether a point lies below the nadir. What is nondominated and lies outside
// resists dominance: it gains little in one objective for much in others.
func (s *selection) isInside(i int) bool {
	for j, v := range s.points[i].F {
		if v > s.nadir[j] {
			return false
		}
	}
	return true
}

// fill chooses, of those that may be, the nearest to the ideal until there are enough.
func (s *selection) fill(may func(i int) bool) {
	type other struct {
		i   int
		far float64
	}
	var others []other
	for i := range s.points {
		if may(i) {
			others = append(others, other{i, s.distance(i, -1)})
		}
	}
	slices.SortStableFunc(others, func(a, b other) int { return cmp.Compare(a.far, b.far) })
	for _, o := range others[:min(len(others), max(s.size-len(s.chosen), 0))] {
		s.chosen = append(s.chosen, o.i)
	}
}

// distance returns the square of how far a point is from the ideal, without one objective.
func (s *selection) distance(i, without int) (sum float64) {
	for j, v := range s.points[i].F {
		if j != without {
			sum += square(v - s.ideal[j])
		}
	}
	return sum
}

func square(x float64) float64 { return float64(x * x) }

// nondominated returns the points that none is better than, and sets the ideal.
func (s *selection) nondominated() (best []int) {
	s.ideal = slices.Clone(s.points[0].F)
	for _, p := range s.points {
		for j, v := range p.F {
			s.ideal[j] = min(s.ideal[j], v)
		}
	}
	rounded := make([][]float64, len(s.points))
	for i, p := range s.points {
		rounded[i] = make([]float64, len(p.F))
		for j, v := range p.F {
			rounded[i][j] = math.Floor(v/grain + 0.5)
		}
	}
	for i, f := range rounded {
		if !slices.ContainsFunc(rounded, func(g []float64) bool { return dominates(g, f) }) {
			best = append(best, i)
		}
	}
	return best
}

// dominates reports whether a is no worse in anything and better in something.
func dominates(a, b []float64) bool {
	better := false
	for j, v := range a {
		if v > b[j] {
			return false
		}
		better = better || v < b[j]
	}
	return better
}

// Front returns the points that no other dominates, one of equals.
func Front(points []Point) (front []Point) {
	for i, p := range points {
		out := slices.ContainsFunc(points, func(o Point) bool { return dominates(o.F, p.F) })
		out = out || slices.ContainsFunc(points[:i],
			func(o Point) bool { return slices.Equal(o.F, p.F) })
		if !out {
			front = append(front, p)
		}
	}
	return front
}
