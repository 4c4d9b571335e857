package onerange

// The gaps of a space and the blocks in it are one list by address, so that a block that
// is freed finds the gaps beside it at once. What a view's block occupies, and where
// nothing is mapped, is not on the list: neighbours touch only if their addresses do.

// link names a gap or a block; zero: the list ends.
type link uint32

func gapLink(g uint32) link   { return link(g << 1) }
func blockLink(b uint32) link { return link(b<<1 | 1) }

// gap returns the gap that a link names; zero: it names a block, or nothing.
func (l link) gap() uint32 {
	if l&1 != 0 {
		return 0
	}
	return uint32(l >> 1)
}

// beside returns where an element has its neighbours; zero is the list's two ends.
func (e *Engine) beside(s uint32, l link) (prev, next *link) {
	switch {
	case l == 0:
		return &e.spaces[s].last, &e.spaces[s].first
	case l&1 == 0:
		return &e.gaps[l>>1].prev, &e.gaps[l>>1].next
	}
	return &e.blocks[l>>1].prev, &e.blocks[l>>1].next
}

// join makes two elements of a space's list neighbours; zero is its end.
func (e *Engine) join(s uint32, a, b link) {
	_, next := e.beside(s, a)
	prev, _ := e.beside(s, b)
	*next, *prev = b, a
}

// at returns where an element of a list begins, and the one behind it.
func (e *Engine) at(l link) (unit, link) {
	if l&1 == 0 {
		return e.gaps[l>>1].start(), e.gaps[l>>1].next
	}
	return e.blocks[l>>1].at, e.blocks[l>>1].next
}

// around returns the elements before and behind a place that no element holds.
func (e *Engine) around(s uint32, at unit) (p, n link) {
	c := &e.spaces[s]
	if p = c.last; p == 0 {
		return 0, 0
	} else if last, _ := e.at(p); last < at {
		return p, 0
	}
	p, n = 0, c.first
	if g := atMost(e.gaps, c.free.addrs, uint64(at), byAddr); g != 0 {
		p, n = gapLink(g), e.gaps[g].next
	}
	for n != 0 {
		start, next := e.at(n)
		if start > at {
			break
		}
		p, n = n, next
	}
	return p, n
}
