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
			l := &h.edges[side]
			e.push(&l.head[n], x, side)
			l.some[n>>6] |= 1 << (n & 63)
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
			l := &h.edges[side]
			e.pull(&l.head[n], x, side)
			if l.head[n] == 0 {
				l.some[n>>6] &^= 1 << (n & 63)
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
func (e *Engine) edgeFit(h uint32, side int, n unit, view, not uint32) uint32 {
	l := &e.heaps[h].edges[side]
	for w := int(n >> 6); w < len(l.some); w++ {
		word := l.some[w]
		if w == int(n>>6) {
			word &= ^uint64(0) << (n & 63)
		}
		for ; word != 0; word &= word - 1 {
			x := l.head[w<<6+bits.TrailingZeros64(word)]
			for ; x != 0; x = e.handles[x].link[side].next {
				if x != not && !e.maps(view, x) {
					return x
				}
			}
		}
	}
	return 0
}

// edgeBelow returns a handle with the most free units, but fewer than n, at one
// end; zero if there is none.
func (e *Engine) edgeBelow(h uint32, side int, n unit) uint32 {
	l := &e.heaps[h].edges[side]
	for w := int(n >> 6); w >= 0; w-- {
		word := l.some[w]
		if w == int(n>>6) {
			word &= 1<<(n&63) - 1
		}
		if word != 0 {
			return l.head[w<<6+63-bits.LeadingZeros64(word)]
		}
	}
	return 0
}
