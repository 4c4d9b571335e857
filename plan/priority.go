package plan

import (
	"math"
	"slices"
)

// ranker turns weights into an order of the boxes of a piece.
type ranker struct {
	features [][5]float64 // by box, each scaled to [0, 1]
	keys     []rankKey
	order    []int32
}

type rankKey struct {
	key float64
	tie int32
	box int32
}

func sortKeys(keys []rankKey) {
	slices.SortFunc(keys, func(x, y rankKey) int {
		switch {
		case x.key != y.key:
			return compare(x.key, y.key)
		case x.tie != y.tie:
			return compare(x.tie, y.tie)
		}
		return compare(x.box, y.box)
	})
}

func newRanker(p *piece) *ranker {
	n := len(p.ids)
	r := &ranker{features: make([][5]float64, n), keys: make([]rankKey, n), order: make([]int32, n)}
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

// rank returns the boxes by falling priority. Ties go to the earlier start, or
// the later end if time is mirrored. The result is valid until the next call.
func (r *ranker) rank(p *piece, w Weights) []int32 {
	for i, f := range r.features {
		tie := p.lo[i]
		if w.Mirror {
			tie = -p.hi[i]
		}
		key := w.Size*f[0] + w.Duration*f[1] + w.Load*f[2] + w.Lower*f[3] + w.Upper*f[4]
		r.keys[i] = rankKey{-key, tie, int32(i)}
	}
	sortKeys(r.keys)
	for i, k := range r.keys {
		r.order[i] = k.box
	}
	return r.order
}

// peaks answers the largest load over a range of ticks from a table of the
// maxima of all ranges of 1, 2, 4, ... ticks.
type peaks [][]int64

func newPeaks(p *piece) peaks {
	first := make([]int64, p.ticks)
	for t := range first {
		first[t] = p.load[t] + p.floorAt(int32(t))
	}
	table := peaks{first}
	for width := 1; 2*width <= len(first); width *= 2 {
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
