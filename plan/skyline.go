package plan

import "slices"

// descent places boxes from the bottom up. The tops of what is placed form a
// skyline of segments over time. Again and again it takes the lowest segment
// and lays on it the box of best rank that lives within it; if none does, the
// segment is raised to its lower neighbour, which wastes what lies between. No
// box is ever moved. (Burke, Kendall and Whitwell's best fit for strip packing,
// Operations Research 2004, with the horizontal place of every box fixed.)
type descent struct {
	p     *problem
	tree  *tree
	sky   []segment // in the order of time; two neighbours differ in height
	fresh []segment // scratch
}

// segment is a flat part [lo, hi) of the skyline.
type segment struct {
	lo, hi int32
	height int64
}

func newDescent(p *problem) *descent { return &descent{p: p, tree: newTree(p)} }

// fill places boxes by rank in a gap of so many bytes, leaving out what does not fit, and
// returns where the highest ends.
func (d *descent) fill(order []int32, from, size int64, at []int64) (top int64) {
	d.tree.refill(order)
	d.reset()
	smallest := int64(1) << 62
	for _, box := range order {
		smallest = min(smallest, d.p.size[box])
	}
	for left := len(order); left > 0; {
		low := d.lowest()
		seg := d.sky[low]
		if seg.height > size-smallest {
			break
		}
		rank := d.tree.within(seg.lo, seg.hi)
		if rank == taken {
			if len(d.sky) == 1 {
				break
			}
			d.raise(low)
			continue
		}
		box := order[rank]
		d.tree.take(box)
		left--
		// The skyline never falls: what does not fit here fits nowhere above.
		if end := seg.height + d.p.size[box]; end <= size {
			at[box] = from + seg.height
			top = max(top, from+end)
			lo, hi := d.p.lo[box], d.p.hi[box]
			d.put(low, segment{seg.lo, lo, seg.height}, segment{lo, hi, end}, segment{hi, seg.hi, seg.height})
		}
	}
	return top
}

// reset makes the skyline the floor of the gap.
func (d *descent) reset() {
	d.sky = append(d.sky[:0], segment{0, d.p.ticks, 0})
	if d.p.floor == nil {
		return
	}
	d.sky = d.sky[:0]
	for t, height := range d.p.floor {
		if n := len(d.sky); n > 0 && d.sky[n-1].height == height {
			d.sky[n-1].hi++
		} else {
			d.sky = append(d.sky, segment{int32(t), int32(t) + 1, height})
		}
	}
}

// lowest returns the lowest segment. Few blocks live at once in training steps: with a heap that
// knows it they are planned as fast, the largest twice.
func (d *descent) lowest() (low int) {
	least := d.sky[0].height
	for i, s := range d.sky {
		if s.height < least {
			low, least = i, s.height
		}
	}
	return low
}

// raise lifts a segment to its lower neighbour.
func (d *descent) raise(i int) {
	s := d.sky[i]
	s.height = 1 << 62
	if i > 0 {
		s.height = d.sky[i-1].height
	}
	if i+1 < len(d.sky) {
		s.height = min(s.height, d.sky[i+1].height)
	}
	d.put(i, s)
}

// put replaces a segment by parts of it, of which some may be empty.
func (d *descent) put(i int, parts ...segment) {
	from, to := max(i-1, 0), min(i+2, len(d.sky))
	d.fresh = append(append(append(d.fresh[:0], d.sky[from:i]...), parts...), d.sky[i+1:to]...)
	n := 0
	for _, s := range d.fresh {
		switch {
		case s.lo == s.hi:
		case n > 0 && d.fresh[n-1].height == s.height:
			d.fresh[n-1].hi = s.hi
		default:
			d.fresh[n] = s
			n++
		}
	}
	d.sky = slices.Replace(d.sky, from, to, d.fresh[:n]...)
}
