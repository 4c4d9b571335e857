package descent

// Descent places boxes from the bottom up. The tops of what is placed form a
// skyline of segments over time. Again and again it takes the lowest segment
// and lays on it the box of best rank that lives within it; if none does, the
// segment is raised to its lower neighbour, which wastes what lies between. No
// box is ever moved. (Burke, Kendall and Whitwell's best fit for strip packing,
// Operations Research 2004, with the horizontal place of every box fixed.)
type Descent struct {
	p    *Boxes
	tree *tree
	sky  []segment // linked in the order of time; two neighbours differ in height
	gone []int32   // places in sky to be used again
	heap []lowest  // of all segments, and of some that are gone or have changed
	// Ask, if there is one, is told of work done, a unit a box placed or a segment raised, and
	// answers whether to go on. It is asked every 4096 units at least.
	Ask func(units int64) bool
}

// segment is a flat part [lo, hi) of the skyline.
type segment struct {
	lo, hi     int32 // lo is none: it is gone
	prev, next int32
	height     int64
}

// lowest is how low a segment was once: the heap's order is by height, of equals the first.
type lowest struct {
	height int64
	lo, at int32
}

const none int32 = -1

// NewDescent returns a descent that may be used over and over.
func NewDescent(p *Boxes) *Descent { return &Descent{p: p, tree: newTree(p)} }

// Fill places boxes by rank in a gap of so many bytes, leaving out what does not fit, and
// returns where the highest ends.
func (d *Descent) Fill(order []int32, from, size int64, at []int64) (top int64) {
	d.tree.refill(order)
	d.sky, d.gone, d.heap = d.sky[:0], d.gone[:0], d.heap[:0]
	d.insert(none, 0, d.p.Ticks, 0)
	smallest := int64(1) << 62
	for _, box := range order {
		smallest = min(smallest, d.p.Size[box])
	}
	const often = 1 << 12
	for left, round := len(order), 1; left > 0; round++ {
		if d.Ask != nil && round%often == 0 && !d.Ask(often) {
			break
		}
		low := d.lowest()
		seg := d.sky[low]
		if seg.height > size-smallest {
			break
		}
		rank := d.tree.within(seg.lo, seg.hi)
		if rank == taken {
			if seg.prev == none && seg.next == none {
				break
			}
			d.raise(low)
			continue
		}
		box := order[rank]
		d.tree.take(box)
		left--
		// The skyline never falls: what does not fit here fits nowhere above.
		if end := seg.height + d.p.Size[box]; end <= size {
			at[box] = from + seg.height
			top = max(top, from+end)
			d.lay(low, d.p.Lo[box], d.p.Hi[box], end)
		}
	}
	return top
}

// insert puts a segment behind another.
func (d *Descent) insert(prev, lo, hi int32, height int64) int32 {
	s := segment{lo, hi, prev, none, height}
	if prev != none {
		s.next = d.sky[prev].next
	}
	at := int32(len(d.sky))
	if n := len(d.gone); n > 0 {
		at, d.gone = d.gone[n-1], d.gone[:n-1]
		d.sky[at] = s
	} else {
		d.sky = append(d.sky, s)
	}
	if prev != none {
		d.sky[prev].next = at
	}
	if s.next != none {
		d.sky[s.next].prev = at
	}
	d.push(lowest{height, lo, at})
	return at
}

// lay puts a height on a part of a segment.
func (d *Descent) lay(at, lo, hi int32, height int64) {
	s := d.sky[at]
	if hi < s.hi {
		d.insert(at, hi, s.hi, s.height)
	}
	if lo > s.lo {
		d.sky[at].hi = lo
		at = d.insert(at, lo, hi, height)
	} else {
		d.sky[at].hi, d.sky[at].height = hi, height
		d.push(lowest{height, lo, at})
	}
	if next := d.sky[at].next; next != none && d.sky[next].height == height {
		d.join(at, next)
	}
	if prev := d.sky[at].prev; prev != none && d.sky[prev].height == height {
		d.join(prev, at)
	}
}

// join adds a segment to the one before.
func (d *Descent) join(a, b int32) {
	d.sky[a].hi, d.sky[a].next = d.sky[b].hi, d.sky[b].next
	if next := d.sky[a].next; next != none {
		d.sky[next].prev = a
	}
	d.sky[b].lo = none
	d.gone = append(d.gone, b)
}

// raise lifts a segment to its lower neighbour.
func (d *Descent) raise(at int32) {
	s := d.sky[at]
	height := int64(1) << 62
	if s.prev != none {
		height = d.sky[s.prev].height
	}
	if s.next != none {
		height = min(height, d.sky[s.next].height)
	}
	d.lay(at, s.lo, s.hi, height)
}

// lowest returns the lowest segment.
func (d *Descent) lowest() int32 {
	for {
		top := d.heap[0]
		if s := &d.sky[top.at]; s.lo == top.lo && s.height == top.height {
			return top.at
		}
		last := d.heap[len(d.heap)-1]
		d.heap = d.heap[:len(d.heap)-1]
		i := 0
		for child := 1; child < len(d.heap); child = 2*i + 1 {
			if child+1 < len(d.heap) && d.heap[child+1].below(d.heap[child]) {
				child++
			}
			if last.below(d.heap[child]) {
				break
			}
			d.heap[i] = d.heap[child]
			i = child
		}
		d.heap[i] = last
	}
}

func (d *Descent) push(x lowest) {
	d.heap = append(d.heap, x)
	i := len(d.heap) - 1
	for ; i > 0 && x.below(d.heap[(i-1)/2]); i = (i - 1) / 2 {
		d.heap[i] = d.heap[(i-1)/2]
	}
	d.heap[i] = x
}

func (l lowest) below(o lowest) bool {
	return l.height < o.height || l.height == o.height && l.lo < o.lo
}
