package engine

// A run is a maximal free range of one view. The runs of all views are in one
// table of nodes; the treap of the page a run starts in finds it by address, the
// size index of its heap by size.

// locate returns the run with the largest start not above at, in whatever view;
// zero if there is none.
func (e *Engine) locate(at unit) uint32 {
	p := uint32(at >> pageShift)
	if r := atMost(e.runs, e.pages[p].root, uint64(at), byAddr); r != 0 {
		return r
	}
	if p == 0 {
		return 0
	}
	q, ok := e.starts.floor(p - 1)
	if !ok {
		return 0
	}
	return atMost(e.runs, e.pages[q].root, ^uint64(0), byAddr)
}

// freeAt returns the run of view that holds [lo, hi), or zero.
func (e *Engine) freeAt(view uint32, lo, hi unit) uint32 {
	r := e.locate(lo)
	if r == 0 || e.runs[r].view != view || e.runs[r].end() < hi {
		return 0
	}
	return r
}

func (e *Engine) addRun(view uint32, lo, hi unit) {
	var r uint32
	if e.spareRun != 0 {
		r = e.spareRun
		e.spareRun = e.runs[r].kid[byAddr][0]
	} else {
		e.runs = append(e.runs, run{})
		r = uint32(len(e.runs) - 1)
	}
	n := &e.runs[r]
	n.view = view
	n.setRange(lo, hi)
	e.hang(r)
	if s := e.sizesOf(view); s != nil {
		s.add(e.runs, r)
	}
}

func (e *Engine) delRun(r uint32) {
	if s := e.sizesOf(e.runs[r].view); s != nil {
		s.drop(e.runs, r)
	}
	e.unhang(r)
	e.runs[r] = run{}
	e.runs[r].kid[byAddr][0] = e.spareRun
	e.spareRun = r
}

// hang puts a run into the treap of the page it starts in.
func (e *Engine) hang(r uint32) {
	p := uint32(e.runs[r].start() >> pageShift)
	if e.pages[p].root == 0 {
		e.starts.set(p)
	}
	insert(e.runs, &e.pages[p].root, r, byAddr)
}

func (e *Engine) unhang(r uint32) {
	p := uint32(e.runs[r].start() >> pageShift)
	remove(e.runs, &e.pages[p].root, r, byAddr)
	if e.pages[p].root == 0 {
		e.starts.reset(p)
	}
}

// reshape gives run r other bounds. Its place among the runs of its page stays
// the same as long as its start stays in that page.
func (e *Engine) reshape(r uint32, lo, hi unit) {
	n := &e.runs[r]
	sizes := e.sizesOf(n.view)
	if sizes != nil {
		sizes.drop(e.runs, r)
	}
	if n.start()>>pageShift == lo>>pageShift {
		n.setRange(lo, hi)
	} else {
		e.unhang(r)
		n.setRange(lo, hi)
		e.hang(r)
	}
	if sizes != nil {
		sizes.add(e.runs, r)
	}
}

// sizesOf returns the size index that the runs of a view are in; nil for a
// private view, whose runs serve nobody else.
func (e *Engine) sizesOf(view uint32) *sizeIndex {
	v := &e.views[view]
	if v.list >= privateViews {
		return nil
	}
	return &e.heaps[v.heap].sizes[v.list]
}

// runTake removes [lo, hi) from the run of view that holds it.
func (e *Engine) runTake(view uint32, lo, hi unit) {
	r := e.locate(lo)
	start, end := e.runs[r].start(), e.runs[r].end()
	if r == 0 || e.runs[r].view != view || start > lo || end < hi {
		panic("engine: broken equation: a run of the view holds every range taken from it")
	}
	switch {
	case start == lo && end == hi:
		e.delRun(r)
	case start == lo:
		e.reshape(r, hi, end)
	case end == hi:
		e.reshape(r, start, lo)
	default:
		e.reshape(r, start, lo)
		e.addRun(view, hi, end)
	}
}

// runGive adds [lo, hi) to the runs of view and returns the run it became part
// of, as a range.
func (e *Engine) runGive(view uint32, lo, hi unit) (start, end unit) {
	start, end = lo, hi
	before := e.locate(lo)
	if before != 0 && (e.runs[before].view != view || e.runs[before].end() != lo) {
		before = 0
	}
	var after uint32
	if hi < e.views[view].end() {
		root := e.pages[hi>>pageShift].root
		after = atMost(e.runs, root, uint64(hi), byAddr)
		if after != 0 && e.runs[after].start() != hi {
			after = 0
		}
	}
	if after != 0 {
		end = e.runs[after].end()
	}
	switch {
	case before != 0:
		start = e.runs[before].start()
		if after != 0 {
			e.delRun(after)
		}
		e.reshape(before, start, end)
	case after != 0:
		e.reshape(after, start, end)
	default:
		e.addRun(view, start, end)
	}
	return start, end
}

// take marks [lo, hi) of view occupied: in the view's own runs, in those of every
// alias, and in the handles.
func (e *Engine) take(view uint32, lo, hi unit) {
	e.runTake(view, lo, hi)
	e.mirror(lo, hi, false)
	for at := lo; at < hi; {
		next := min(hi, (at|pageMask)+1)
		e.occupy(e.pages[at>>pageShift].handle, at&pageMask, (next-1)&pageMask+1)
		at = next
	}
}

// give is the inverse of take.
func (e *Engine) give(view uint32, lo, hi unit) {
	start, end := e.runGive(view, lo, hi)
	e.mirror(lo, hi, true)
	for at := lo; at < hi; {
		page := at &^ pageMask
		next := min(hi, page+pageUnits)
		from, to := max(start, page)-page, min(end, page+pageUnits)-page
		e.vacate(e.pages[at>>pageShift].handle, at-page, next-page, from, to)
		at = next
	}
}

// mirror repeats a change of [lo, hi) in the aliases of its handles. Neighbouring
// pages that are neighbours in the alias too are changed in one go: stitching a
// thousand handles that were made together costs one update, not a thousand.
func (e *Engine) mirror(lo, hi unit, give bool) {
	first, last := uint32(lo>>pageShift), uint32((hi-1)>>pageShift)
	e.countWhole(e.pages[first].view, lo, hi, give)
	for p := first; p <= last; {
		x := e.pages[p].handle
		step := last - p + 1 // pages on which all aliases of page p go on
		for q := e.handles[x].alias; q != 0; q = e.pages[q].next {
			if q == p {
				continue
			}
			view := e.pages[q].view
			if e.views[view].heap != e.handles[x].heap {
				step = 1
				continue // the handle has moved to another heap: this page sleeps
			}
			if p > first && e.pages[q-1].handle == e.pages[p-1].handle && e.pages[q-1].view == view {
				step = e.common(p, q, view, step) // done with the neighbour before
				continue
			}
			m := e.common(p, q, view, last-p+1)
			step = min(step, m)
			shift := (unit(q) - unit(p)) << pageShift // wraps around when q < p, and so does the sum
			from := max(lo, unit(p)<<pageShift) + shift
			to := min(hi, unit(p+m)<<pageShift) + shift
			if give {
				e.runGive(view, from, to)
			} else {
				e.runTake(view, from, to)
			}
			e.countWhole(view, from, to, give)
		}
		// The pages behind p are done as well, up to one with an alias of its own.
		n := e.handles[x].aliases
		for p++; step > 1 && e.handles[e.pages[p].handle].aliases == n; step-- {
			p++
		}
	}
}

// common returns the number of pages, at most most, on which page q and those
// behind it in view map the same handles as p and those behind it.
func (e *Engine) common(p, q, view, most uint32) uint32 {
	a, b := e.pages[p:p+most], e.pages[q:]
	m := uint32(1)
	for m < most && a[m].handle == b[m].handle && b[m].view == view {
		m++
	}
	return m
}

// countWhole keeps the view's number of wholly free pages for those that lie in
// [lo, hi) as a whole; occupy and vacate do so for the others.
func (e *Engine) countWhole(view uint32, lo, hi unit, give bool) {
	from, to := (lo+pageMask)>>pageShift, hi>>pageShift
	switch {
	case from >= to:
	case give:
		e.views[view].free += int(to - from)
	default:
		e.views[view].free -= int(to - from)
	}
}
