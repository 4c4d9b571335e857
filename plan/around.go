package plan

import (
	"slices"

	"stalloc/internal/mem"
)

// Fixed is memory that buffers must keep away from: a block that lies at [From, To)
// until a tick, from before the first buffer on.
type Fixed struct {
	From, To mem.Offset
	Until    mem.Tick
}

// SolveAround places the buffers of b in one address space from zero upward, around what
// is fixed, which does not overlap. It is content with a makespan of goal, and
// tries at most o.Descents placements, or a number that takes some milliseconds.
// LowerBound is for the gaps it uses.
func SolveAround(b []Buffer, fixed []Fixed, goal mem.Bytes, o Options) Solution {
	s := Solution{Offsets: make([]mem.Offset, len(b)), Order: "stack"}
	if len(b) == 0 {
		return s
	}
	begin := b[0].Lower
	for _, x := range b {
		begin = min(begin, x.Lower)
	}
	all := slices.Clone(b)
	for _, f := range fixed {
		all = append(all, Buffer{begin, f.Until, mem.Bytes(f.To - f.From)})
	}
	d := newBoard(all, nil, make([]mem.Offset, len(all)))
	d.ids = slices.DeleteFunc(d.ids, func(id int32) bool { return int(id) >= len(b) })
	if len(d.ids) == 0 {
		return s
	}
	a := newAround(d, fixed, len(b))
	s.LowerBound = mem.Bytes(a.lowerBound())
	goal = max(goal, s.LowerBound)
	budget := o.Descents
	if budget == 0 {
		budget = max(aroundWork/len(d.ids), 4)
	}
	a.search(o, budget, int64(goal), &s)
	for k, id := range d.ids {
		s.Offsets[id] = mem.Offset(a.best[k])
	}
	return s
}

// aroundWork is how many buffers are placed at most unless the caller says something else:
// one takes less than a microsecond.
const aroundWork = 40_000

// mostGaps is how many of the gaps between fixed blocks are used, besides the memory
// behind them: the largest ones.
const mostGaps = 64

// around places boxes in the gaps that fixed memory leaves, one gap after another.
type around struct {
	p    *piece
	sky  *descent
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

func newAround(d *board, fixed []Fixed, buffers int) *around {
	p := d.newPiece(d.ids, 0, nil)
	from, to := d.span(d.ids)
	a := &around{p: p, sky: newDescent(p), at: make([]int64, len(d.ids)), best: make([]int64, len(d.ids))}
	order := make([]int32, len(fixed))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(x, y int32) int { return compare(int64(fixed[x].From), int64(fixed[y].From)) })
	end := space{} // the one being made
	top := int64(0)
	for _, i := range order {
		f := fixed[i]
		until := d.hi[buffers+int(i)] - from
		if until <= 0 {
			continue
		}
		// Under a floor, what lies below it is lost for its time; a wall takes its own
		// bytes for all time.
		below, size := int64(f.From)-max(top, end.from), int64(f.To-f.From)
		if until < to-from && below*int64(until) <= size*int64(to-from-until) {
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
func (a *around) choose(last space) {
	smallest := slices.Min(a.p.size)
	a.gaps = slices.DeleteFunc(a.gaps, func(g space) bool { return g.size < smallest })
	slices.SortStableFunc(a.gaps, func(x, y space) int { return compare(y.size, x.size) })
	a.gaps = append(a.gaps[:min(len(a.gaps), mostGaps)], last)
	for i := range a.gaps {
		g := &a.gaps[i]
		if len(g.ends) == 0 {
			continue
		}
		g.floor = make([]int64, a.p.ticks)
		for _, e := range g.ends { // by rising height
			for t := range e.until {
				g.floor[t] = e.height
			}
		}
	}
}

// lowerBound returns the address below which the gaps hold the largest load.
func (a *around) lowerBound() int64 {
	load := a.p.bound
	gaps := slices.Clone(a.gaps)
	slices.SortFunc(gaps, func(x, y space) int { return compare(x.from, y.from) })
	for _, g := range gaps {
		if load <= g.size {
			return g.from + load
		}
		load -= g.size
	}
	return 0
}

// search tries one priority after another, the last plan's first.
func (a *around) search(o Options, budget int, goal int64, s *Solution) {
	rank := newRanker(a.p)
	best := int64(1) << 62
	try := func(name string, w Weights) {
		if w.Fit || s.Descents >= budget || best <= goal {
			return
		}
		s.Descents++
		if top, ok := a.place(rank.rank(a.p, w), best); ok {
			best = top
			copy(a.best, a.at)
			s.Makespan, s.Order, s.Weights = mem.Bytes(top), name, w
		}
	}
	if o.Warm != nil {
		try("warm", *o.Warm)
	}
	for _, c := range portfolio {
		try(c.name, c.w)
	}
}

// place fills the gaps, the largest first, and returns the makespan. It gives up
// where that would be limit or more.
func (a *around) place(order []int32, limit int64) (top int64, ok bool) {
	for i := range a.at {
		a.at[i] = unplaced
	}
	a.rest = append(a.rest[:0], order...)
	for _, g := range a.gaps {
		a.p.floor = g.floor
		size := min(g.size, limit-g.from)
		a.fits = a.fits[:0]
		for _, box := range a.rest {
			if a.p.size[box] <= size {
				a.fits = append(a.fits, box)
			}
		}
		if len(a.fits) > 0 {
			top = max(top, a.sky.fill(a.fits, g.from, size, a.at))
			a.rest = slices.DeleteFunc(a.rest, func(box int32) bool { return a.at[box] != unplaced })
		}
	}
	return top, len(a.rest) == 0 && top < limit
}

// fill is run in a gap of so many bytes: it leaves out what does not fit.
func (d *descent) fill(order []int32, from, size int64, at []int64) (top int64) {
	for i := range d.tree.rank {
		d.tree.rank[i] = taken
	}
	d.tree.refill(order)
	d.reset()
	smallest := int64(1) << 62
	for _, box := range order {
		smallest = min(smallest, d.p.size[box])
	}
	for left := len(order); left > 0; {
		s := d.heap[0]
		seg := d.segs[s]
		if seg.height > size-smallest {
			break
		}
		rank := d.tree.within(seg.lo, seg.hi)
		if rank == taken {
			if len(d.heap) == 1 {
				break
			}
			d.raise(s)
			continue
		}
		box := order[rank]
		d.tree.take(box)
		left--
		// The skyline never falls: what does not fit here fits nowhere above.
		if end := seg.height + d.p.size[box]; end <= size {
			at[box] = from + seg.height
			top = max(top, from+end)
			d.lay(s, d.p.lo[box], d.p.hi[box], end)
		}
	}
	return top
}
