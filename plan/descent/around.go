package descent

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
)

// Around places the buffers of b in one address space from zero upward, around what
// is fixed, which does not overlap. It is content with a makespan of goal, and gives up
// after a few placements with the best: each takes about a microsecond a buffer.
func Around(b []Buffer, fixed []Fixed, goal mem.Bytes) Solution {
	s := Solution{Offsets: make([]mem.Offset, len(b))}
	p := Compress(b, fixed)
	if len(p.IDs) == 0 {
		return s
	}
	a := newPlacer(p, fixed)
	s.Makespan = mem.Bytes(a.search(max(int64(goal), a.lowerBound())))
	for k, id := range p.IDs {
		s.Offsets[id] = mem.Offset(a.best[k])
	}
	return s
}

// mostGaps is how many of the gaps between fixed blocks are used, besides the memory
// behind them: the largest ones.
const mostGaps = 64

// placer places boxes in the gaps that fixed memory leaves, one gap after another.
type placer struct {
	p    *Boxes
	sky  *Descent
	gaps []space
	at   []int64 // by box, of the last try
	best []int64
	rest []int32 // not placed yet, by rank
	fits []int32 // those no larger than the gap
}

// space is memory between two places that are fixed throughout. What is fixed in it for a
// time is a floor, with all that lies below it.
type space struct {
	from, size int64
	ends       []floorEnd
	floor      []int64 // by tick, of the ends; nil: flat
}

// floorEnd is a floor of that height, until a tick.
type floorEnd struct {
	height int64
	until  int32
}

const unplaced = -1

func newPlacer(p *Boxes, fixed []Fixed) *placer {
	a := &placer{p: p, sky: NewDescent(p), at: make([]int64, len(p.IDs)),
		best: make([]int64, len(p.IDs))}
	order := make([]int32, len(fixed))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Compare(int64(fixed[x].From),
			int64(fixed[y].From))
	})
	end := space{} // the one being made
	top := int64(0)
	for _, i := range order {
		f := fixed[i]
		until := p.Until[i]
		if until == 0 {
			continue
		}
		// Under a floor, what lies below it is lost for its time; a wall takes its own
		// bytes for all time.
		below, size := int64(f.From)-max(top, end.from), int64(f.To-f.From)
		if until < p.Ticks && below*int64(until) <= size*int64(p.Ticks-until) {
			end.ends = append(end.ends, floorEnd{int64(f.To) - end.from, until})
			top = int64(f.To)
			continue
		}
		end.size = int64(f.From) - end.from
		a.gaps = append(a.gaps, end)
		end = space{from: int64(f.To)}
		top = end.from
	}
	end.size = 1 << 62
	a.choose(end)
	return a
}

// choose keeps the largest gaps and the memory behind them, and lays their floors.
func (a *placer) choose(last space) {
	smallest := slices.Min(a.p.Size)
	a.gaps = slices.DeleteFunc(a.gaps, func(g space) bool { return g.size < smallest })
	slices.SortStableFunc(a.gaps, func(x, y space) int { return cmp.Compare(y.size, x.size) })
	a.gaps = append(a.gaps[:min(len(a.gaps), mostGaps)], last)
	for i := range a.gaps {
		g := &a.gaps[i]
		if len(g.ends) == 0 {
			continue
		}
		g.floor = make([]int64, a.p.Ticks)
		from := int32(0) // each tick once: what is higher and lasts as long covers the rest
		for _, e := range slices.Backward(g.ends) {
			for ; from < e.until; from++ {
				g.floor[from] = e.height
			}
		}
	}
}

// lowerBound returns the address below which the gaps hold the largest load.
func (a *placer) lowerBound() int64 {
	load := a.p.Bound
	gaps := slices.Clone(a.gaps)
	slices.SortFunc(gaps, func(x, y space) int { return cmp.Compare(x.from, y.from) })
	for _, g := range gaps {
		if load <= g.size {
			return g.from + load
		}
		load -= g.size
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
		a.p.Floor = g.floor
		size := min(g.size, limit-g.from)
		a.fits = a.fits[:0]
		for _, box := range a.rest {
			if a.p.Size[box] <= size {
				a.fits = append(a.fits, box)
			}
		}
		if len(a.fits) > 0 {
			top = max(top, a.sky.Fill(a.fits, g.from, size, a.at))
			a.rest = slices.DeleteFunc(a.rest,
				func(box int32) bool { return a.at[box] != unplaced })
		}
	}
	return top, len(a.rest) == 0 && top < limit
}
