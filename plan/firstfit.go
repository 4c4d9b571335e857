package plan

import "slices"

// fit places boxes one after another, each at the lowest offset free during its
// whole life. Unlike the descent it may lay a box under others.
type fit struct {
	p      *piece
	offset []int64
	placed []span // by offset
	floors []span // the floor of the piece as placed boxes
}

// span is a placed box, laid out for the scan over all of them.
type span struct {
	from, to int64 // offsets
	lo, hi   int32
}

func newFit(p *piece) *fit {
	f := &fit{p: p, offset: make([]int64, len(p.ids))}
	for t := range p.floor {
		if n := len(f.floors); n > 0 && f.floors[n-1].to == p.floor[t] {
			f.floors[n-1].hi = int32(t) + 1
		} else {
			f.floors = append(f.floors, span{0, p.floor[t], int32(t), int32(t) + 1})
		}
	}
	return f
}

// run places the boxes in order and returns the makespan. It gives up, and
// returns false, at the first box that would end at limit or above.
func (f *fit) run(order []int32, limit int64) (int64, bool) {
	f.placed = append(f.placed[:0], f.floors...)
	var top int64
	for _, box := range order {
		lo, hi, size := f.p.lo[box], f.p.hi[box], f.p.size[box]
		var at int64
		for k := range f.placed {
			s := &f.placed[k]
			if s.lo >= hi || s.hi <= lo || s.to <= at {
				continue
			}
			if s.from-at >= size {
				break
			}
			at = s.to
		}
		f.offset[box] = at
		if at+size >= limit {
			return at + size, false
		}
		top = max(top, at+size)
		k, _ := slices.BinarySearchFunc(f.placed, at, func(s span, at int64) int { return compare(s.from, at) })
		f.placed = slices.Insert(f.placed, k, span{at, at + size, lo, hi})
	}
	return top, true
}
