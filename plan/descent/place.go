package descent

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// Place places the buffers of b in gaps of one address space, of which the last has no end; in
// none: from zero upward. It is content with a makespan of goal, and gives up after a few
// placements with the best: each takes about a microsecond a buffer.
func Place(b []Buffer, gaps []Gap, goal mem.Bytes) Solution {
	s := Solution{Offsets: make([]mem.Offset, len(b))}
	p := Compress(b)
	if len(p.IDs) == 0 {
		return s
	}
	a := newPlacer(p, gaps)
	s.Makespan = mem.Bytes(a.search(max(int64(goal), a.lowerBound())))
	for k, id := range p.IDs {
		s.Offsets[id] = mem.Offset(a.best[k])
	}
	return s
}

// mostGaps is how many of the gaps are used, besides the last: the largest ones.
const mostGaps = 64

// placer places boxes in one gap after another.
type placer struct {
	p    *Boxes
	sky  *Descent
	gaps []Gap
	at   []int64 // by box, of the last try
	best []int64
	rest []int32 // not placed yet, by rank
	fits []int32 // those no larger than the gap
}

const unplaced = -1

func newPlacer(p *Boxes, gaps []Gap) *placer {
	last := Gap{}
	if n := len(gaps); n > 0 {
		last, gaps = gaps[n-1], slices.Clone(gaps[:n-1])
	}
	last.Size = 1 << 62
	smallest := mem.Bytes(slices.Min(p.Size))
	gaps = slices.DeleteFunc(gaps, func(g Gap) bool { return g.Size < smallest })
	slices.SortStableFunc(gaps, func(x, y Gap) int { return cmp.Compare(y.Size, x.Size) })
	return &placer{p: p, sky: NewDescent(p), gaps: append(gaps[:min(len(gaps), mostGaps)], last),
		at: make([]int64, len(p.IDs)), best: make([]int64, len(p.IDs))}
}

// lowerBound returns the address below which the gaps hold the largest load.
func (a *placer) lowerBound() int64 {
	load := a.p.Bound
	gaps := slices.Clone(a.gaps)
	slices.SortFunc(gaps, func(x, y Gap) int { return cmp.Compare(x.From, y.From) })
	for _, g := range gaps {
		if load <= int64(g.Size) {
			return int64(g.From) + load
		}
		load -= int64(g.Size)
	}
	return 0
}

// search tries one priority after another, and returns the makespan of the best.
func (a *placer) search(goal int64) int64 {
	rank := NewRanker(a.p)
	best := int64(1) << 62
	for _, w := range Portfolio {
		if best <= goal {
			break
		}
		if top, ok := a.place(rank.Rank(w), best); ok {
			best = top
			copy(a.best, a.at)
		}
	}
	return best
}

// place fills the gaps, the largest first, and returns the makespan. It gives up
// where that would be limit or more.
func (a *placer) place(order []int32, limit int64) (top int64, ok bool) {
	for i := range a.at {
		a.at[i] = unplaced
	}
	a.rest = append(a.rest[:0], order...)
	for _, g := range a.gaps {
		from := int64(g.From)
		size := min(int64(g.Size), limit-from)
		a.fits = a.fits[:0]
		for _, box := range a.rest {
			if a.p.Size[box] <= size {
				a.fits = append(a.fits, box)
			}
		}
		if len(a.fits) > 0 {
			top = max(top, a.sky.Fill(a.fits, from, size, a.at))
			a.rest = slices.DeleteFunc(a.rest,
				func(box int32) bool { return a.at[box] != unplaced })
		}
	}
	return top, len(a.rest) == 0 && top < limit
}
