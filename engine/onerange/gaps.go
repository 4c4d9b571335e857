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

func (e *Engine) newGap(s uint32, lo, hi unit) {
	var n uint32
	if e.spareGap != 0 {
		n = e.spareGap
		e.spareGap = e.gaps[n].space
	} else {
		e.gaps = append(e.gaps, gap{})
		n = uint32(len(e.gaps) - 1)
	}
	e.gaps[n] = gap{space: s}
	e.gaps[n].set(lo, hi)
	f := &e.spaces[s].free
	insert(e.gaps, &f.addrs, n, byAddr)
	f.addSize(e.gaps, n)
}

func (e *Engine) dropGap(n uint32) {
	f := &e.spaces[e.gaps[n].space].free
	f.dropSize(e.gaps, n)
	remove(e.gaps, &f.addrs, n, byAddr)
	e.gaps[n] = gap{space: e.spareGap}
	e.spareGap = n
}

// reshape gives a gap another extent in the same place of the order by address.
func (e *Engine) reshape(n uint32, lo, hi unit) {
	f := &e.spaces[e.gaps[n].space].free
	f.dropSize(e.gaps, n)
	e.gaps[n].set(lo, hi)
	f.addSize(e.gaps, n)
}

// take occupies [lo, hi), all of it free in one gap.
func (e *Engine) take(s uint32, lo, hi unit) { e.takeFrom(e.find(s, lo), lo, hi) }

func (e *Engine) takeFrom(g uint32, lo, hi unit) {
	start, end, s := e.gaps[g].start(), e.gaps[g].end(), e.gaps[g].space
	switch {
	case start == lo && end == hi:
		e.dropGap(g)
	case start == lo:
		e.reshape(g, hi, end)
	case end == hi:
		e.reshape(g, start, lo)
	default:
		e.reshape(g, start, lo)
		e.newGap(s, hi, end)
	}
	e.spaces[s].units -= hi - lo
}

// give frees [lo, hi) and joins it with the gaps beside it.
func (e *Engine) give(s uint32, lo, hi unit) {
	e.spaces[s].units += hi - lo
	f := &e.spaces[s].free
	before := atMost(e.gaps, f.addrs, uint64(lo), byAddr)
	after := atLeast(e.gaps, f.addrs, uint64(hi), byAddr)
	if before != 0 && e.gaps[before].end() != lo {
		before = 0
	}
	if after != 0 && e.gaps[after].start() != hi {
		after = 0
	}
	switch {
	case before != 0 && after != 0:
		start, end := e.gaps[before].start(), e.gaps[after].end()
		e.dropGap(after)
		e.reshape(before, start, end)
	case before != 0:
		e.reshape(before, e.gaps[before].start(), hi)
	case after != 0:
		e.reshape(after, lo, e.gaps[after].end())
	default:
		e.newGap(s, lo, hi)
	}
}
