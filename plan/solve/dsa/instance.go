package dsa

import (
	"cmp"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/descent"
)

// Instance is a problem on compressed time, as solvers read it; see descent.Boxes. Only boxes that
// take memory are part of it. Where a box has gaps, its life there is all of it, and its pieces
// say when it takes what.
type Instance struct {
	*descent.Boxes
	Pieces []Piece // nil: no box has gaps
	First  []int32 // by box, and one more: its first piece
	Align  []int64 // by box; nil: 1
	Pin    []int64 // by box: its offset, or Free; nil: all are free
	Length []int64 // by box: its life in the problem's own time
	Bound  int64   // no placement ends lower
}

// Piece is the part [From, To) of a box's bytes that it takes in the ticks [Lo, Hi).
type Piece struct {
	Lo, Hi   int32
	From, To int64
}

// Free is the pin of a box that may lie anywhere.
const Free = -1

// Plain reports whether boxes are rectangles that may lie at any offset.
func (in *Instance) Plain() bool { return in.Pieces == nil && in.Align == nil && in.Pin == nil }

// Of returns the pieces of a box. The slice is the caller's scratch where there are no gaps.
func (in *Instance) Of(box int32, scratch []Piece) []Piece {
	if in.Pieces != nil {
		return in.Pieces[in.First[box]:in.First[box+1]]
	}
	return append(scratch[:0], Piece{in.Lo[box], in.Hi[box], 0, in.Size[box]})
}

// Whole reports whether a box takes all its bytes for all its life.
func (in *Instance) Whole(box int32) bool {
	if in.Pieces == nil {
		return true
	}
	p := in.Pieces[in.First[box]]
	return in.First[box+1]-in.First[box] == 1 && p.From == 0 && p.To == in.Size[box]
}

// Fits returns the lowest offset from at on that the box's alignment allows.
func (in *Instance) Fits(box int32, at int64) int64 {
	if in.Align == nil {
		return at
	}
	a := in.Align[box]
	return (at + a - 1) / a * a
}

// Top returns where the highest box ends.
func (in *Instance) Top(at []int64) (top int64) {
	for box, offset := range at {
		top = max(top, offset+in.Size[box])
	}
	return top
}

// Offsets returns the offsets by buffer of those by box. A buffer that takes no memory lies where
// it is pinned, or at 0.
func (in *Instance) Offsets(p *Problem, at []int64) []mem.Offset {
	offsets := make([]mem.Offset, len(p.Buffers))
	for _, pin := range p.Pins {
		offsets[pin.Buffer] = pin.At
	}
	for box, id := range in.IDs {
		offsets[id] = mem.Offset(at[box])
	}
	return offsets
}

// Compress makes an instance of a problem that is valid.
func Compress(p *Problem) *Instance {
	in := &Instance{}
	if len(p.Gaps) == 0 {
		in.Boxes = descent.Compress(p.Buffers)
	} else {
		in.cut(p)
	}
	in.Bound = in.Boxes.Bound
	in.Length = make([]int64, len(in.IDs))
	for k, id := range in.IDs {
		in.Length[k] = int64(p.Buffers[id].Upper - p.Buffers[id].Lower)
	}
	box := make([]int32, len(p.Buffers)) // and one: 0 is none
	for k, id := range in.IDs {
		box[id] = int32(k) + 1
	}
	if len(p.Pins) > 0 {
		in.Pin = slices.Repeat([]int64{Free}, len(in.IDs))
	}
	for _, pin := range p.Pins {
		if k := box[pin.Buffer]; k > 0 {
			in.Pin[k-1] = int64(pin.At)
			in.Bound = max(in.Bound, int64(pin.At)+in.Size[k-1])
		}
	}
	for k, id := range in.IDs {
		// Where all sizes are multiples of one alignment, all sums of them are, too.
		if a := int64(p.align(int(id))); a > 1 && in.Align == nil && !p.evenly() {
			in.Align = slices.Repeat([]int64{1}, len(in.IDs))
		}
		if in.Align != nil {
			in.Align[k] = int64(p.align(int(id)))
		}
	}
	return in
}

// evenly reports whether every size is a multiple of every alignment, so that any sum of sizes is,
// and nothing is pinned elsewhere.
func (p *Problem) evenly() bool {
	largest := slices.Max(p.Align)
	for i, b := range p.Buffers {
		if !b.Empty() && (b.Size%largest != 0 || largest%p.Align[i] != 0) {
			return false
		}
	}
	return len(p.Gaps) == 0 && len(p.Pins) == 0
}

func (p *Problem) sortedGaps() []Gap {
	gaps := slices.Clone(p.Gaps)
	slices.SortStableFunc(gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(a.Buffer, b.Buffer), cmp.Compare(a.Lower, b.Lower),
			cmp.Compare(a.Upper, b.Upper))
	})
	return slices.DeleteFunc(gaps, func(g Gap) bool { return g.Lower == g.Upper })
}

// cut cuts the buffers at their gaps, compresses the time of the pieces, and joins them again.
func (in *Instance) cut(p *Problem) {
	type part struct {
		buffer   int32
		from, to int64
	}
	var pieces []Buffer
	var parts []part
	add := func(buffer int, lower, upper mem.Tick, from, to mem.Bytes) {
		if x := (Buffer{Lower: lower, Upper: upper, Size: to - from}); !x.Empty() {
			pieces, parts = append(pieces, x), append(parts, part{int32(buffer), int64(from),
				int64(to)})
		}
	}
	gaps := p.sortedGaps()
	for i, b := range p.Buffers {
		at := b.Lower
		for len(gaps) > 0 && gaps[0].Buffer == i {
			g := gaps[0]
			gaps = gaps[1:]
			add(i, at, g.Lower, 0, b.Size)
			add(i, g.Lower, g.Upper, g.From, g.To)
			at = g.Upper
		}
		add(i, at, b.Upper, 0, b.Size)
	}
	cut := descent.Compress(pieces)
	of := make([][]Piece, len(p.Buffers))
	for k, id := range cut.IDs { // in the order of their starts
		x := parts[id]
		of[x.buffer] = append(of[x.buffer], Piece{cut.Lo[k], cut.Hi[k], x.from, x.to})
	}
	in.Boxes = &descent.Boxes{Ticks: cut.Ticks, Load: cut.Load, Bound: cut.Bound}
	for i := range of {
		if len(of[i]) > 0 {
			in.IDs = append(in.IDs, int32(i))
		}
	}
	slices.SortStableFunc(in.IDs,
		func(a, b int32) int { return cmp.Compare(of[a][0].Lo, of[b][0].Lo) })
	for _, id := range in.IDs {
		in.First = append(in.First, int32(len(in.Pieces)))
		in.Pieces = append(in.Pieces, of[id]...)
		in.Lo, in.Hi = append(in.Lo, of[id][0].Lo), append(in.Hi, of[id][len(of[id])-1].Hi)
		in.Size = append(in.Size, int64(p.Buffers[id].Size))
	}
	in.First = append(in.First, int32(len(in.Pieces)))
}
