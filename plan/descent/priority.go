package descent

import (
	"math"
	"slices"
)

// Weights are a priority by which boxes are placed: the sum of each weight times its
// feature, features scaled to [0, 1] within the problem, larger placed first.
type Weights [Features]float64

const (
	BySize     = iota // logarithm of the box's size
	ByDuration        // logarithm of the length of its life
	ByLoad            // largest load met during its life
	ByLower           // start of its life
	ByUpper           // end of its life
	Features
)

// Portfolio is the priorities that are tried. Long and big boxes are hard to
// place late, so they come first. The two mixtures came out of a search over training
// graphs that no simple order solves. More of them made no recorded run better.
var Portfolio = [...]Weights{
	{ByDuration: 1},
	{ByDuration: 1, BySize: 1},
	{ByLoad: 100, ByDuration: 1, BySize: 1},
	{BySize: 1, ByDuration: 0.5, ByLoad: 1, ByLower: 0.5, ByUpper: 0.5},
	{BySize: 0.3, ByDuration: 1.5, ByLoad: -0.7, ByUpper: -0.3},
}

// Ranker turns weights into an order of the boxes of a problem.
type Ranker struct {
	All      []int32             // the boxes
	features [Features][]float64 // by box, each scaled to [0, 1]
	keys     []float64
	sorted   []uint64
	order    []int32
}

// NewRanker measures the features of the boxes.
func NewRanker(p *Boxes) *Ranker {
	n := len(p.IDs)
	r := &Ranker{keys: make([]float64, n), sorted: make([]uint64, n), order: make([]int32, n),
		All: make([]int32, n)}
	for i := range r.All {
		r.All[i] = int32(i)
	}
	peaks := newPeaks(p)
	for f, of := range [Features]func(box int) float64{
		BySize:     func(i int) float64 { return math.Log(float64(p.Size[i])) },
		ByDuration: func(i int) float64 { return math.Log(float64(p.Hi[i] - p.Lo[i])) },
		ByLoad:     func(i int) float64 { return float64(peaks.over(p.Lo[i], p.Hi[i])) },
		ByLower:    func(i int) float64 { return float64(p.Lo[i]) },
		ByUpper:    func(i int) float64 { return float64(p.Hi[i]) },
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

// Rank returns the boxes by falling priority, of equals the earlier start first. The
// result is valid until the next call.
func (r *Ranker) Rank(w Weights) []int32 { return r.RankSome(r.All, w) }

// RankSome is Rank of some of the boxes, at least one.
func (r *Ranker) RankSome(boxes []int32, w Weights) []int32 {
	keys, sorted, order := r.keys[:len(boxes)], r.sorted[:len(boxes)], r.order[:len(boxes)]
	clear(keys)
	for f, weight := range w {
		if weight != 0 {
			for i, box := range boxes {
				keys[i] -= weight * r.features[f][box]
			}
		}
	}
	scale(keys)
	const boxBits = 24 // key and box in one word are sorted thrice as fast
	for i, key := range keys {
		sorted[i] = uint64(key*(1<<(64-boxBits)-1))<<boxBits | uint64(boxes[i])
	}
	slices.Sort(sorted)
	for i, x := range sorted {
		order[i] = int32(x & (1<<boxBits - 1))
	}
	return order
}

// peaks answers the largest load over a range of ticks: a complete binary tree of maxima over
// the ticks, the children of i at 2i and 2i+1.
type peaks []int64

func newPeaks(p *Boxes) peaks {
	t := make(peaks, 2*len(p.Load))
	copy(t[len(p.Load):], p.Load)
	for i := len(p.Load) - 1; i > 0; i-- {
		t[i] = max(t[2*i], t[2*i+1])
	}
	return t
}

func (t peaks) over(lo, hi int32) (most int64) {
	for i, j := int(lo)+len(t)/2, int(hi)+len(t)/2; i < j; i, j = i/2, j/2 {
		if i&1 == 1 {
			most = max(most, t[i])
			i++
		}
		if j&1 == 1 {
			j--
			most = max(most, t[j])
		}
	}
	return most
}
