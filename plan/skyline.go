package plan

import "math"

// descent places boxes from the bottom up. The tops of what is placed form a
// skyline of segments over time. Again and again it takes the lowest segment
// and lays on it the box of best rank that lives within it; if none does, the
// segment is raised to its lower neighbour, which wastes what lies between. No
// box is ever moved. (Burke, Kendall and Whitwell's best fit for strip packing,
// Operations Research 2004, with the horizontal place of every box fixed.)
type descent struct {
	p    *problem
	tree *tree

	segs []segment
	heap []int32 // segments by height; dead ones are dropped when met
	free []int32 // segments to use again
}

// segment is a flat part [lo, hi) of the skyline.
type segment struct {
	lo, hi     int32
	prev, next int32 // neighbours in time, or none
	height     int64
	heapAt     int32 // place in the heap
}

const none int32 = -1 // no segment

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

// reset makes the skyline the floor of the gap.
func (d *descent) reset() {
	d.segs, d.heap, d.free = d.segs[:0], d.heap[:0], d.free[:0]
	last := none
	for from := int32(0); from < d.p.ticks; {
		to := from + 1
		for d.p.floor != nil && to < d.p.ticks && d.p.floor[to] == d.p.floor[from] {
			to++
		}
		if d.p.floor == nil {
			to = d.p.ticks
		}
		last = d.insert(from, to, d.p.floorAt(from), last, none)
		from = to
	}
}

// lay covers [lo, hi) of segment s with a box that ends at height.
func (d *descent) lay(s, lo, hi int32, height int64) {
	seg := &d.segs[s]
	oldLo, oldHi, old := seg.lo, seg.hi, seg.height
	if lo > oldLo {
		d.insert(oldLo, lo, old, d.segs[s].prev, s)
	}
	if hi < oldHi {
		d.insert(hi, oldHi, old, s, d.segs[s].next)
	}
	seg = &d.segs[s]
	seg.lo, seg.hi = lo, hi
	d.setHeight(s, height)
}

// raise lifts segment s to its lower neighbour.
func (d *descent) raise(s int32) {
	height := int64(math.MaxInt64)
	if prev := d.segs[s].prev; prev != none {
		height = min(height, d.segs[prev].height)
	}
	if next := d.segs[s].next; next != none {
		height = min(height, d.segs[next].height)
	}
	d.setHeight(s, height)
}

// setHeight moves segment s up and merges it with neighbours of the same height.
func (d *descent) setHeight(s int32, height int64) {
	d.segs[s].height = height
	d.sink(d.segs[s].heapAt)
	if prev := d.segs[s].prev; prev != none && d.segs[prev].height == height {
		d.segs[s].lo = d.segs[prev].lo
		d.remove(prev)
	}
	if next := d.segs[s].next; next != none && d.segs[next].height == height {
		d.segs[s].hi = d.segs[next].hi
		d.remove(next)
	}
}

func (d *descent) insert(lo, hi int32, height int64, prev, next int32) int32 {
	var s int32
	if n := len(d.free); n > 0 {
		s = d.free[n-1]
		d.free = d.free[:n-1]
	} else {
		s = int32(len(d.segs))
		d.segs = append(d.segs, segment{})
	}
	d.segs[s] = segment{lo, hi, prev, next, height, int32(len(d.heap))}
	if prev != none {
		d.segs[prev].next = s
	}
	if next != none {
		d.segs[next].prev = s
	}
	d.heap = append(d.heap, s)
	d.swim(int32(len(d.heap) - 1))
	return s
}

func (d *descent) remove(s int32) {
	seg := d.segs[s]
	if seg.prev != none {
		d.segs[seg.prev].next = seg.next
	}
	if seg.next != none {
		d.segs[seg.next].prev = seg.prev
	}
	last := int32(len(d.heap) - 1)
	moved := d.heap[last]
	d.heap = d.heap[:last]
	if seg.heapAt < last {
		d.heap[seg.heapAt] = moved
		d.segs[moved].heapAt = seg.heapAt
		d.swim(seg.heapAt)
		d.sink(d.segs[moved].heapAt)
	}
	d.free = append(d.free, s)
}

func (d *descent) swim(i int32) {
	s := d.heap[i]
	height := d.segs[s].height
	for i > 0 {
		up := (i - 1) / 2
		if d.segs[d.heap[up]].height <= height {
			break
		}
		d.heap[i] = d.heap[up]
		d.segs[d.heap[i]].heapAt = i
		i = up
	}
	d.heap[i] = s
	d.segs[s].heapAt = i
}

func (d *descent) sink(i int32) {
	s := d.heap[i]
	height := d.segs[s].height
	n := int32(len(d.heap))
	for {
		down := 2*i + 1
		if down >= n {
			break
		}
		if down+1 < n && d.segs[d.heap[down+1]].height < d.segs[d.heap[down]].height {
			down++
		}
		if d.segs[d.heap[down]].height >= height {
			break
		}
		d.heap[i] = d.heap[down]
		d.segs[d.heap[i]].heapAt = i
		i = down
	}
	d.heap[i] = s
	d.segs[s].heapAt = i
}
