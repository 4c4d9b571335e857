package plan

import (
	"math"
	"slices"
)

// weights are a priority by which boxes are placed: the sum of each weight times its
// feature, features scaled to [0, 1] within the problem, larger placed first.
type weights [features]float64

const (
	bySize     = iota // logarithm of the box's size
	byDuration        // logarithm of the length of its life
	byLoad            // largest load met during its life
	byLower           // start of its life
	byUpper           // end of its life
	features
)

// portfolio is the priorities that are tried. Long and big boxes are hard to
// place late, so they come first. The two mixtures came out of a search over training
// graphs that no simple order solves. More of them made no recorded run better.
var portfolio = [...]weights{
	{byDuration: 1},
	{byDuration: 1, bySize: 1},
	{byLoad: 100, byDuration: 1, bySize: 1},
	{bySize: 1, byDuration: 0.5, byLoad: 1, byLower: 0.5, byUpper: 0.5},
	{bySize: 0.3, byDuration: 1.5, byLoad: -0.7, byUpper: -0.3},
}

// ranker turns weights into an order of the boxes of a problem.
type ranker struct {
	features [features][]float64 // by box, each scaled to [0, 1]
	keys     []float64
	sorted   []uint64
	order    []int32
}

func newRanker(p *problem) *ranker {
	n := len(p.ids)
	r := &ranker{keys: make([]float64, n), sorted: make([]uint64, n), order: make([]int32, n)}
	peaks := newPeaks(p)
	for f, of := range [features]func(box int) float64{
		bySize:     func(i int) float64 { return math.Log(float64(p.size[i])) },
		byDuration: func(i int) float64 { return math.Log(float64(p.hi[i] - p.lo[i])) },
		byLoad:     func(i int) float64 { return float64(peaks.over(p.lo[i], p.hi[i])) },
		byLower:    func(i int) float64 { return float64(p.lo[i]) },
		byUpper:    func(i int) float64 { return float64(p.hi[i]) },
	} {
		r.features[f] = make([]float64, n)
		for i := range n {
			r.features[f][i] = of(i)
		}
		scale(r.features[f])
	}
	return r
}

// scale takes numbers to [0, 1].
func scale(all []float64) {
	low, high := slices.Min(all), slices.Max(all)
	for i := range all {
		all[i] = (all[i] - low) / max(high-low, math.SmallestNonzeroFloat32)
	}
}

// rank returns the boxes by falling priority, of equals the earlier start first. The
// result is valid until the next call.
func (r *ranker) rank(w weights) []int32 {
	clear(r.keys)
	for f, weight := range w {
		if weight != 0 {
			for i, x := range r.features[f] {
				r.keys[i] -= weight * x
			}
		}
	}
	scale(r.keys)
	const boxBits = 24 // key and box in one word are sorted thrice as fast
	for i, key := range r.keys {
		r.sorted[i] = uint64(key*(1<<(64-boxBits)-1))<<boxBits | uint64(i)
	}
	slices.Sort(r.sorted)
	for i, x := range r.sorted {
		r.order[i] = int32(x & (1<<boxBits - 1))
	}
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
