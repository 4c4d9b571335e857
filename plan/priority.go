package plan

import (
	"cmp"
	"math"
	"slices"
)

// weights are a priority by which boxes are placed: the sum of each weight times its
// feature, features scaled to [0, 1] within the problem, larger placed first.
type weights struct {
	size     float64 // logarithm of the box's size
	duration float64 // logarithm of the length of its life
	load     float64 // largest load met during its life
	lower    float64 // start of its life
	upper    float64 // end of its life
}

// portfolio is the priorities that are tried. Long and big boxes are hard to
// place late, so they come first. The two mixtures came out of a search over training
// graphs that no simple order solves. More of them made no recorded run better.
var portfolio = [...]weights{
	{duration: 1},
	{duration: 1, size: 1},
	{load: 100, duration: 1, size: 1},
	{size: 1, duration: 0.5, load: 1, lower: 0.5, upper: 0.5},
	{size: 0.3, duration: 1.5, load: -0.7, upper: -0.3},
}

// ranker turns weights into an order of the boxes of a problem.
type ranker struct {
	p        *problem
	features [][5]float64 // by box, each scaled to [0, 1]
	keys     []float64
	order    []int32
}

func newRanker(p *problem) *ranker {
	n := len(p.ids)
	r := &ranker{p: p, features: make([][5]float64, n), keys: make([]float64, n), order: make([]int32, n)}
	peaks := newPeaks(p)
	for i := range r.features {
		r.features[i] = [5]float64{
			math.Log(float64(p.size[i])),
			math.Log(float64(p.hi[i] - p.lo[i])),
			float64(peaks.over(p.lo[i], p.hi[i])),
			float64(p.lo[i]),
			float64(p.hi[i]),
		}
	}
	for f := range 5 {
		low, high := math.Inf(1), math.Inf(-1)
		for i := range r.features {
			low, high = min(low, r.features[i][f]), max(high, r.features[i][f])
		}
		scale := 0.0
		if high > low {
			scale = 1 / (high - low)
		}
		for i := range r.features {
			r.features[i][f] = (r.features[i][f] - low) * scale
		}
	}
	return r
}

// rank returns the boxes by falling priority, of equals the earlier start first. The
// result is valid until the next call.
func (r *ranker) rank(w weights) []int32 {
	for i, f := range r.features {
		r.keys[i] = w.size*f[0] + w.duration*f[1] + w.load*f[2] + w.lower*f[3] + w.upper*f[4]
		r.order[i] = int32(i)
	}
	slices.SortFunc(r.order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(r.keys[y], r.keys[x]), cmp.Compare(r.p.lo[x], r.p.lo[y]), cmp.Compare(x, y))
	})
	return r.order
}

// peaks answers the largest load over a range of ticks from a table of the
// maxima of all ranges of 1, 2, 4, ... ticks.
type peaks [][]int64

func newPeaks(p *problem) peaks {
	table := peaks{p.load}
	for width := 1; 2*width <= len(p.load); width *= 2 {
		below := table[len(table)-1]
		row := make([]int64, len(below)-width)
		for t := range row {
			row[t] = max(below[t], below[t+width])
		}
		table = append(table, row)
	}
	return table
}

func (t peaks) over(lo, hi int32) int64 {
	level := 0
	for int32(2)<<level <= hi-lo {
		level++
	}
	return max(t[level][lo], t[level][hi-int32(1)<<level])
}
