package onerange

// find returns the gap of a space that holds the unit at, or zero.
func (e *Engine) find(s uint32, at unit) uint32 {
	g := atMost(e.gaps, e.spaces[s].free.addrs, uint64(at), byAddr)
	if g != 0 && e.gaps[g].end() > at {
		return g
	}
	return 0
}

// isFree reports whether all of [lo, hi) is free in one gap of a space.
func (e *Engine) isFree(s uint32, lo, hi unit) bool {
	g := e.find(s, lo)
	return g != 0 && e.gaps[g].end() >= hi
}

// newGap makes a gap between two neighbours.
func (e *Engine) newGap(s uint32, lo, hi unit, p, n link) {
	g := e.spareGap
	if g != 0 {
		e.spareGap = e.gaps[g].space
	} else {
		e.gaps = append(e.gaps, gap{})
		g = uint32(len(e.gaps) - 1)
	}
	e.gaps[g] = gap{space: s}
	e.gaps[g].set(lo, hi)
	f := &e.spaces[s].free
	insert(e.gaps, &f.addrs, g, byAddr)
	f.addSize(e.gaps, g)
	e.join(s, p, gapLink(g))
	e.join(s, gapLink(g), n)
}

// dropGap forgets a gap, whose neighbours are joined by the caller.
func (e *Engine) dropGap(g uint32) {
	f := &e.spaces[e.gaps[g].space].free
	f.dropSize(e.gaps, g)
	remove(e.gaps, &f.addrs, g, byAddr)
	e.gaps[g] = gap{space: e.spareGap}
	e.spareGap = g
}

// reshape gives a gap another extent in the same place of the order by address.
func (e *Engine) reshape(g uint32, lo, hi unit) {
	f := &e.spaces[e.gaps[g].space].free
	f.dropSize(e.gaps, g)
	e.gaps[g].set(lo, hi)
	f.addSize(e.gaps, g)
}

// take occupies [lo, hi), all of it free in one gap, with a block that lies there; 0:
// with what is found by other means.
func (e *Engine) take(s uint32, lo, hi unit, block uint32) {
	g := e.find(s, lo)
	start, end, p, n := e.gaps[g].start(), e.gaps[g].end(), e.gaps[g].prev, e.gaps[g].next
	if end == hi {
		if start == lo {
			e.dropGap(g)
		} else {
			e.reshape(g, start, lo)
			p = gapLink(g)
		}
	} else if start == lo {
		e.reshape(g, hi, end)
		n = gapLink(g)
	} else {
		e.reshape(g, start, lo)
		e.newGap(s, hi, end, gapLink(g), n)
		p, n = gapLink(g), e.gaps[g].next
	}
	if block != 0 {
		e.join(s, p, blockLink(block))
		p = blockLink(block)
	}
	e.join(s, p, n)
	e.spaces[s].units -= hi - lo
	e.spaces[s].version++
}

// give frees [lo, hi), in which no block lies.
func (e *Engine) give(s uint32, lo, hi unit) {
	p, n := e.around(s, lo)
	e.giveBetween(s, lo, hi, p, n)
}

// giveBetween frees [lo, hi) between two neighbours and joins it with those that are
// gaps and touch it.
func (e *Engine) giveBetween(s uint32, lo, hi unit, p, n link) {
	e.spaces[s].units += hi - lo
	before, after := p.gap(), n.gap()
	if before != 0 && e.gaps[before].end() != lo {
		before = 0
	}
	if after != 0 && e.gaps[after].start() != hi {
		after = 0
	}
	switch {
	case before != 0 && after != 0:
		start, end, behind := e.gaps[before].start(), e.gaps[after].end(), e.gaps[after].next
		e.dropGap(after)
		e.reshape(before, start, end)
		e.join(s, p, behind)
	case before != 0:
		e.reshape(before, e.gaps[before].start(), hi)
		e.join(s, p, n)
	case after != 0:
		e.reshape(after, lo, e.gaps[after].end())
		e.join(s, p, n)
	default:
		e.newGap(s, lo, hi, p, n)
	}
}
