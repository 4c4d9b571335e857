package engine

import "math/bits"

// enlist puts a handle on the lists its occupancy calls for.
func (e *Engine) enlist(x uint32) {
	c := &e.handles[x]
	h := &e.heaps[c.heap]
	if c.used == 0 {
		h.freeCount++
		e.push(&h.free, x, prefix)
		return
	}
	for side, n := range c.edge {
		if n > 0 {
			l, k := &h.edges[side], n>>edgeShift
			e.push(&l.head[k], x, side)
			l.some[k>>6] |= 1 << (k & 63)
		}
	}
}

// delist takes a handle off those lists, before its occupancy changes.
func (e *Engine) delist(x uint32) {
	c := &e.handles[x]
	h := &e.heaps[c.heap]
	if c.used == 0 {
		h.freeCount--
		e.pull(&h.free, x, prefix)
		return
	}
	for side, n := range c.edge {
		if n > 0 {
			l, k := &h.edges[side], n>>edgeShift
			e.pull(&l.head[k], x, side)
			if l.head[k] == 0 {
				l.some[k>>6] &^= 1 << (k & 63)
			}
		}
	}
}

func (e *Engine) push(head *uint32, x uint32, side int) {
	e.handles[x].link[side] = links{next: *head}
	if *head != 0 {
		e.handles[*head].link[side].prev = x
	}
	*head = x
}

func (e *Engine) pull(head *uint32, x uint32, side int) {
	l := e.handles[x].link[side]
	if l.next != 0 {
		e.handles[l.next].link[side].prev = l.prev
	}
	if l.prev != 0 {
		e.handles[l.prev].link[side].next = l.next
	} else {
		*head = l.next
	}
}

// edgeFit returns the partly used handle with the fewest free units, but at least
// n, at one end, that view does not map yet and that is not the one named; zero
// if there is none.
func (e *Engine) edgeFit(h uint32, side int, n unit, view, not uint32) (best uint32) {
	l, first := &e.heaps[h].edges[side], int(n>>edgeShift)
	least := uint16(pageUnits)
	for w := first >> 6; w < len(l.some); w++ {
		word := l.some[w]
		if w == first>>6 {
			word &= ^uint64(0) << (first & 63)
		}
		for ; word != 0 && best == 0; word &= word - 1 {
			for x := l.head[w<<6+bits.TrailingZeros64(word)]; x != 0 && unit(least) > n; x = e.handles[x].link[side].next {
				if free := e.handles[x].edge[side]; unit(free) >= n && free < least && x != not && !e.maps(view, x) {
					best, least = x, free
				}
			}
		}
	}
	return best
}

// edgeBelow returns a handle with the most free units, but fewer than n, at one
// end; zero if there is none.
func (e *Engine) edgeBelow(h uint32, side int, n unit) (best uint32) {
	l, last := &e.heaps[h].edges[side], int(min(n, pageUnits-1)>>edgeShift)
	most := uint16(0)
	for w := last >> 6; w >= 0; w-- {
		word := l.some[w]
		if w == last>>6 {
			word &= ^uint64(0) >> (63 - last&63)
		}
		for word != 0 && best == 0 {
			k := 63 - bits.LeadingZeros64(word)
			word &^= 1 << k
			for x := l.head[w<<6+k]; x != 0; x = e.handles[x].link[side].next {
				if free := e.handles[x].edge[side]; unit(free) < n && free > most {
					best, most = x, free
				}
			}
		}
	}
	return best
}
