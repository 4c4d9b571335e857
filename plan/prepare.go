package plan

import (
	"slices"

	"stalloc/internal/mem"
)

// Only the order of starts and ends matters, so time is compressed before
// anything is placed: a run of starts followed by a run of ends is one tick. At
// each such tick the live buffers form a maximal clique, and every load that
// could be a peak is the load of one.

// board is a problem on compressed time.
type board struct {
	ids    []int32 // the boxes: buffers still to be placed
	lo, hi []int32 // life of every buffer on compressed time; empty if it has none
	size   []int64
	ticks  int32
	floor  []int64 // by tick, end of the highest persistent buffer; never falls
	bound  int64   // peak load, of all buffers
}

// newBoard compresses b. The buffers named by persists, which must all live
// until the end of the problem, are stacked from the base in the order of their
// starts, and their offsets set: what lies above them at any tick is then one
// piece, and at the end nothing is lost. persists may be nil.
func newBoard(b []Buffer, persists []bool, offsets []mem.Offset) *board {
	d := &board{lo: make([]int32, len(b)), hi: make([]int32, len(b)), size: make([]int64, len(b))}
	d.compress(b)
	load := make([]int64, d.ticks+1)
	var stack []int32
	for i := range b {
		if b[i].empty() {
			continue
		}
		d.size[i] = int64(b[i].Size)
		load[d.lo[i]] += d.size[i]
		load[d.hi[i]] -= d.size[i]
		if persists != nil && persists[i] {
			stack = append(stack, int32(i))
		} else {
			d.ids = append(d.ids, int32(i))
		}
	}
	var sum int64
	for _, change := range load {
		sum += change
		d.bound = max(d.bound, sum)
	}
	slices.SortStableFunc(stack, func(x, y int32) int { return compare(b[x].Lower, b[y].Lower) })
	d.floor = make([]int64, d.ticks)
	var top int64
	t := int32(0)
	for _, i := range stack {
		for ; t < d.lo[i]; t++ {
			d.floor[t] = top
		}
		offsets[i] = mem.Offset(top)
		top += d.size[i]
	}
	for ; t < d.ticks; t++ {
		d.floor[t] = top
	}
	return d
}

func (d *board) compress(b []Buffer) {
	type edge struct {
		at     mem.Tick
		buffer int32
		start  int8 // ends sort first: lives are half open
	}
	edges := make([]edge, 0, 2*len(b))
	for i := range b {
		if !b[i].empty() {
			edges = append(edges, edge{b[i].Lower, int32(i), 1}, edge{b[i].Upper, int32(i), 0})
		}
	}
	slices.SortFunc(edges, func(x, y edge) int {
		switch {
		case x.at != y.at:
			return compare(x.at, y.at)
		case x.start != y.start:
			return compare(x.start, y.start)
		}
		return compare(x.buffer, y.buffer)
	})
	ended := true
	for _, e := range edges {
		if e.start == 0 {
			d.hi[e.buffer] = d.ticks
			ended = true
			continue
		}
		if ended {
			d.ticks++
			ended = false
		}
		d.lo[e.buffer] = d.ticks - 1
	}
}

func compare[T int8 | int32 | int64 | mem.Tick | float64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// piece is a part of a board that can be placed on its own: no box crosses its
// first or last tick.
type piece struct {
	ids    []int32 // of the boxes, in the board
	lo, hi []int32 // by box, from the piece's first tick
	size   []int64
	ticks  int32
	floor  []int64 // by tick, above base; nil if flat
	load   []int64 // by tick, of the boxes
	base   int64   // offset of the piece
	bound  int64   // largest floor + load: no placement of the piece ends lower
}

// pieces splits the board where no box is live, and lays boxes that live
// throughout their piece at its base, which costs nothing, until neither is
// possible. Boxes so laid get their offset in offsets; the pieces hold the rest.
func (d *board) pieces(offsets []mem.Offset) []*piece {
	type part struct {
		ids  []int32
		base int64 // -1: not known to lie on anything flat
	}
	var out []*piece
	todo := []part{{d.ids, -1}}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, ids := range d.split(p.ids) {
			lo, hi := d.span(ids)
			base := p.base
			if base < 0 && d.floor[lo] == d.floor[hi-1] {
				base = d.floor[lo]
			}
			if base < 0 {
				out = append(out, d.newPiece(ids, 0, d.floor[lo:hi]))
				continue
			}
			rest, above := d.layThrough(ids, base, offsets)
			switch {
			case len(rest) == 0:
			case len(rest) < len(ids):
				todo = append(todo, part{rest, above})
			default:
				out = append(out, d.newPiece(ids, base, nil))
			}
		}
	}
	slices.SortStableFunc(out, func(x, y *piece) int { return compare(y.base+y.bound, x.base+x.bound) })
	return out
}

// span returns the ticks from the first start to the last end of ids.
func (d *board) span(ids []int32) (lo, hi int32) {
	lo = d.ticks
	for _, id := range ids {
		lo, hi = min(lo, d.lo[id]), max(hi, d.hi[id])
	}
	return lo, hi
}

// split groups ids into runs that no life connects.
func (d *board) split(ids []int32) [][]int32 {
	ids = slices.Clone(ids)
	slices.SortStableFunc(ids, func(x, y int32) int { return compare(d.lo[x], d.lo[y]) })
	var runs [][]int32
	start, end := 0, int32(0)
	for i, id := range ids {
		if i > start && d.lo[id] >= end {
			runs = append(runs, ids[start:i])
			start = i
		}
		end = max(end, d.hi[id])
	}
	if start < len(ids) {
		runs = append(runs, ids[start:])
	}
	return runs
}

// layThrough stacks the boxes that live as long as all of ids together.
func (d *board) layThrough(ids []int32, base int64, offsets []mem.Offset) ([]int32, int64) {
	lo, hi := d.span(ids)
	var rest []int32
	for _, id := range ids {
		if d.lo[id] > lo || d.hi[id] < hi {
			rest = append(rest, id)
			continue
		}
		offsets[id] = mem.Offset(base)
		base += d.size[id]
	}
	return rest, base
}

func (d *board) newPiece(ids []int32, base int64, floor []int64) *piece {
	from, to := d.span(ids)
	p := &piece{ids: ids, ticks: to - from, base: base, floor: floor, load: make([]int64, to-from+1)}
	for _, id := range ids {
		lo, hi := d.lo[id]-from, d.hi[id]-from
		p.lo, p.hi, p.size = append(p.lo, lo), append(p.hi, hi), append(p.size, d.size[id])
		p.load[lo] += d.size[id]
		p.load[hi] -= d.size[id]
	}
	var sum int64
	for t := range p.ticks {
		sum += p.load[t]
		p.load[t] = sum
		p.bound = max(p.bound, sum+p.floorAt(t))
	}
	p.load = p.load[:p.ticks]
	return p
}

func (p *piece) floorAt(t int32) int64 {
	if p.floor == nil {
		return 0
	}
	return p.floor[t]
}
