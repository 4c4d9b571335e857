package moea

import (
	"math"
	"slices"
)

// reachOut is how much larger than the nadir's the sum of a corner of the second kind may be.
const reachOut = 1.5

// findCorners finds the corners of what is not dominated, and the nadir, which has the largest
// value of any corner in each objective.
func (s *selection) findCorners(best []int) {
	m := len(s.ideal)
	// The first kind: nearest to an axis, and so the best in all other objectives together.
	for j := range m {
		s.addCorner(least(best, func(i int) float64 { return s.distance(i, j) }))
	}
	s.nadir = slices.Clone(s.ideal)
	for _, i := range s.corners {
		for j, v := range s.points[i].F {
			s.nadir[j] = max(s.nadir[j], v)
		}
	}
	// The second: the best of the rest in one objective, where it lies outside, but not far.
	first := slices.Clone(s.corners)
	rest := without(best, first)
	most := total(s.nadir)
	for j := range m {
		if len(rest) == 0 {
			break
		}
		i := least(rest, func(i int) float64 { return s.points[i].F[j] })
		if total(s.points[i].F) < float64(reachOut*most) && !s.below(i, first) {
			s.addCorner(i)
		}
	}
	for _, i := range s.corners {
		for j, v := range s.points[i].F {
			s.nadir[j] = max(s.nadir[j], v)
		}
	}
}

// below reports whether no objective of a point exceeds all of some others.
func (s *selection) below(i int, others []int) bool {
	for j, v := range s.points[i].F {
		if !slices.ContainsFunc(others, func(o int) bool { return s.points[o].F[j] >= v }) {
			return false
		}
	}
	return true
}

// addCorner adds a point unless there is one that is equal.
func (s *selection) addCorner(i int) {
	equal := func(o int) bool { return slices.Equal(s.points[o].F, s.points[i].F) }
	if !slices.ContainsFunc(s.corners, equal) {
		s.corners = append(s.corners, i)
	}
}

func without(of, others []int) []int {
	return slices.DeleteFunc(slices.Clone(of),
		func(i int) bool { return slices.Contains(others, i) })
}

func total(f []float64) (sum float64) {
	for _, v := range f {
		sum += v
	}
	return sum
}

// least returns the first of those that cost least.
func least(of []int, cost func(i int) float64) int {
	best, low := of[0], cost(of[0])
	for _, i := range of[1:] {
		if c := cost(i); c < low {
			best, low = i, c
		}
	}
	return best
}

// byAngle chooses the corners, and then again and again the point that differs most in angle from
// those chosen.
func (s *selection) byAngle(inside []int) {
	direction := make([][]float64, len(s.points))
	for _, i := range inside {
		direction[i] = s.direction(i)
	}
	s.chosen = slices.Clone(s.corners[:min(len(s.corners), s.size)])
	rest := without(inside, s.chosen)
	nearest := make([]float64, len(rest)) // cosine of the least angle to what is chosen
	for k := range nearest {
		nearest[k] = -1
	}
	look := func(c int) {
		for k, i := range rest {
			nearest[k] = max(nearest[k], dot(direction[i], direction[c]))
		}
	}
	for _, c := range s.chosen {
		look(c)
	}
	for len(s.chosen) < s.size {
		pick := 0
		for k, v := range nearest {
			if v < nearest[pick] {
				pick = k
			}
		}
		c := rest[pick]
		s.chosen = append(s.chosen, c)
		rest, nearest = slices.Delete(rest, pick, pick+1), slices.Delete(nearest, pick, pick+1)
		look(c)
	}
}

// direction returns where a point lies from the ideal, of length 1, in units of the nadir.
func (s *selection) direction(i int) []float64 {
	d := make([]float64, len(s.ideal))
	for j, v := range s.points[i].F {
		if width := s.nadir[j] - s.ideal[j]; width > 0 {
			d[j] = (v - s.ideal[j]) / width
		}
	}
	if length := math.Sqrt(dot(d, d)); length > 0 {
		for j := range d {
			d[j] /= length
		}
	}
	return d
}

func dot(a, b []float64) (sum float64) {
	for j, v := range a {
		sum += float64(v * b[j])
	}
	return sum
}
