// Package indicator says how good a set of points is, given the front it is to lie on.
package indicator

import (
	"math"
	"math/rand/v2"
	"slices"
)

// IGD is the mean distance from the points of a front to the nearest of a set (inverted
// generational distance): a set that leaves out a part of the front is as bad as one that is far
// from it.
func IGD(front, set [][]float64) float64 {
	sum := 0.0
	for _, f := range front {
		nearest := math.Inf(1)
		for _, s := range set {
			d := 0.0
			for j, v := range f {
				d += (v - s[j]) * (v - s[j])
			}
			nearest = min(nearest, d)
		}
		sum += math.Sqrt(nearest)
	}
	return sum / float64(len(front))
}

// Volume measures hypervolumes: the share of a box that a set dominates. The box begins at a
// front's least values and ends a tenth beyond its largest. It is counted by random points, always
// the same: the error of a share h of n is the root of h(1-h)/n.
type Volume struct {
	low, width []float64
	samples    [][]float64
}

// NewVolume returns a measure by n points.
func NewVolume(front [][]float64, n int) *Volume {
	low, high := slices.Clone(front[0]), slices.Clone(front[0])
	for _, f := range front {
		for j, v := range f {
			low[j], high[j] = min(low[j], v), max(high[j], v)
		}
	}
	v := &Volume{low: low, width: make([]float64, len(low))}
	for j := range low {
		v.width[j] = 1.1 * (high[j] - low[j])
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for range n {
		x := make([]float64, len(low))
		for j := range x {
			x[j] = rng.Float64()
		}
		v.samples = append(v.samples, x)
	}
	return v
}

// Of returns the share that a set dominates.
func (v *Volume) Of(set [][]float64) float64 {
	var inside [][]float64
	for _, f := range set {
		y := make([]float64, len(f))
		in := true
		for j := range f {
			y[j] = (f[j] - v.low[j]) / v.width[j]
			in = in && y[j] < 1
		}
		if in {
			inside = append(inside, y)
		}
	}
	n := 0
	for _, x := range v.samples {
		for k, y := range inside {
			if !below(y, x) {
				continue
			}
			n++
			inside[0], inside[k] = inside[k], inside[0] // it is likely to hold the next as well
			break
		}
	}
	return float64(n) / float64(len(v.samples))
}

func below(a, b []float64) bool {
	for j := range a {
		if a[j] > b[j] {
			return false
		}
	}
	return true
}
