package engine

import "slices"

// stitch serves the request by mapping pages. Among extending the tail of each
// view of the heap and opening a new view, it takes what needs the fewest new
// handles, then the fewest maps.
func (e *Engine) stitch(out []Op) []Op {
	a := &e.act
	c := e.choose()
	a.slack = c.slack
	room := e.limit - e.stats.Handles
	a.reason = RefusedLimit
	if a.full {
		room, a.reason = 0, RefusedDevice
	}
	if c.fresh > room && a.rung == rungPending && !a.swept {
		// Every stream has been waited for: take what they have, and ask the
		// driver once more.
		a.swept = true
		a.short = c.fresh - max(room, 0)
		e.adoptIdle()
		c = e.choose()
		a.full, room = false, e.limit-e.stats.Handles
	}
	if c.fresh > room {
		a.short = c.fresh - max(room, 0)
		return e.climb(out)
	}
	if e.overMapped(c.pages) && !a.evicted {
		a.evicted = true
		if got, ok := e.evictWait(out); ok {
			return got
		}
	}
	return e.apply(c, out)
}

// A choice is one way to stitch: pages new pages behind a view's last one, of
// which the last may be a partly used handle whose free prefix takes the rest.
type choice struct {
	view   uint32 // zero: a new one
	tail   unit   // free units at the view's end that the block starts in
	pages  int
	prefix uint32 // zero: the last page is a wholly free handle too
	fresh  int    // handles to create
	slack  bool   // all handles are to be new
}

// choose weighs the ways.
func (e *Engine) choose() choice {
	a := &e.act
	h := &e.heaps[a.heap]
	best := e.weigh(0, 0)
	if a.whole {
		return best
	}
	longest := choice{}
	for v := h.views[a.list]; v != 0; v = e.views[v].next {
		t := e.tail(v)
		c := e.weigh(v, t)
		if e.views[v].n+uint32(c.pages) > e.views[v].room {
			continue
		}
		if c.fresh < best.fresh || c.fresh == best.fresh && (c.pages < best.pages || c.pages == best.pages && best.view == 0) {
			best = c
		}
		if longest.view == 0 || t > longest.tail {
			longest = c
		}
	}
	if a.rung == rungFirst && best.fresh < best.pages && longest.view != 0 {
		longest.pages = int((a.n - longest.tail + pageMask) >> pageShift)
		longest.fresh, longest.prefix, longest.slack = longest.pages, 0, true
		if e.withinSlack(longest.fresh) && !e.noRoom(longest) {
			return longest
		}
	}
	return best
}

func (e *Engine) noRoom(c choice) bool {
	v := &e.views[c.view]
	return v.n+uint32(c.pages) > v.room
}

// weigh returns the cheapest way to make room behind the tail of view v.
func (e *Engine) weigh(v uint32, tail unit) choice {
	a := &e.act
	h := &e.heaps[a.heap]
	need := a.n - tail
	c := choice{view: v, tail: tail, pages: int((need + pageMask) >> pageShift)}
	free := h.freeCount
	if v != 0 {
		free -= e.views[v].free
	}
	stitch := e.cfg.Stitch || a.rung > rungFirst || a.whole
	if !stitch {
		free = 0
	}
	c.fresh = max(c.pages-free, 0)
	if rest := need & pageMask; c.fresh > 0 && rest != 0 && !a.whole && stitch {
		if c.prefix = e.prefixFit(a.heap, rest, v); c.prefix != 0 {
			c.fresh--
		}
	}
	return c
}

// withinSlack reports whether so many new handles keep the device's memory
// within the slack above the peak load.
func (e *Engine) withinSlack(fresh int) bool {
	peak := max(e.stats.PeakHeld, e.stats.Load+e.stats.Pending+bytesOf(e.act.n))
	reserved := float64(e.stats.Handles+fresh) * float64(bytesOf(pageUnits))
	return reserved*(1-e.cfg.Slack) <= float64(peak) && e.stats.Handles+fresh <= e.limit && !e.act.full
}

// apply carries a choice out: ops, state, block.
func (e *Engine) apply(c choice, out []Op) []Op {
	a := &e.act
	a.view, a.opened = c.view, c.view == 0
	if a.opened {
		if a.view = e.openView(a.heap, a.list, e.roomFor(c)); a.view == 0 {
			a.reason = RefusedWindow
			return e.climb(out)
		}
	}
	a.phase = phasePlace
	e.pick(c)
	a.creates, a.maps = c.fresh, len(e.picks)
	v := &e.views[a.view]
	a.first = v.base + v.n
	at := v.end() - c.tail
	whole := len(e.picks)
	if c.prefix != 0 {
		whole--
	}
	for _, x := range e.picks[whole-c.fresh : whole] {
		out = append(out, Op{Kind: OpCreate, Handle: Index(x)})
	}
	for i, x := range e.picks {
		out = append(out, Op{Kind: OpMap, Addr: e.addr(unit(a.first+uint32(i)) << pageShift), Handle: Index(x)})
	}
	out = append(out, Op{
		Kind: OpAccess, Addr: e.addr(unit(a.first) << pageShift), Size: bytesOf(unit(a.maps) << pageShift),
	})
	e.stats.Creates += uint64(a.creates)
	e.stats.Maps += uint64(a.maps)
	e.stats.Stitches++
	e.mapPages(a.view, e.picks)
	if a.whole {
		e.views[a.view].room = e.views[a.view].n
	}
	return e.grant(a.view, at, out)
}

// pick fills e.picks: wholly free handles that the view does not map yet, in the
// order they were made so that neighbours stay neighbours, then new ones, then
// the handle whose prefix takes the rest.
func (e *Engine) pick(c choice) {
	a := &e.act
	e.picks = e.picks[:0]
	whole := c.pages - c.fresh
	if c.prefix != 0 {
		whole--
	}
	for x := e.heaps[a.heap].free; len(e.picks) < whole; x = e.handles[x].next {
		if c.view == 0 || e.views[c.view].free == 0 || !e.maps(c.view, x) {
			e.picks = append(e.picks, x)
		}
	}
	slices.Sort(e.picks)
	for range c.fresh {
		e.picks = append(e.picks, e.newHandle(a.heap))
	}
	if c.prefix != 0 {
		e.picks = append(e.picks, c.prefix)
	}
}

// roomFor returns how many pages a view that is opened should reserve. Where new
// memory goes the range doubles, so that few views hold all of it; a view stitched
// from what is there gets room for a little.
func (e *Engine) roomFor(c choice) uint32 {
	a := &e.act
	room := 64
	switch {
	case a.whole:
		room = c.pages
	case c.fresh > 0:
		room = max(room, 2*c.pages, e.heaps[a.heap].handles)
	}
	return uint32(max(room, c.pages))
}

// undoPlace takes back what a batch of phasePlace did not do, from op at on, and
// the mapping it did halfway: a page without access rights is of no use.
func (e *Engine) undoPlace(at int, out []Op) []Op {
	a := &e.act
	e.dropBlock(a.block)
	if a.maps > 0 {
		e.stats.Stitches--
	}
	for i := a.maps - 1; i >= 0; i-- {
		e.unmapPage(a.first + uint32(i))
	}
	e.stats.Maps -= uint64(a.maps)
	a.undo = 0
	if done := min(max(at-a.creates, 0), a.maps); done > 0 {
		out = append(out, Op{
			Kind: OpUnmap, Addr: e.addr(unit(a.first) << pageShift), Size: bytesOf(unit(done) << pageShift),
		})
		e.stats.Maps += uint64(done)
		e.stats.Unmaps += uint64(done)
		a.undo = 1
		if !a.opened {
			e.views[a.view].room = e.views[a.view].n
		}
	}
	if a.opened {
		e.limbo = limbo{e.views[a.view].base, e.views[a.view].class}
		e.closeView(a.view)
		if a.undo == 0 {
			e.freeLimbo()
		}
	}
	// Handles that were not created go. The picks still name them, in order.
	if at < a.creates {
		first := a.maps - a.creates
		if e.handles[e.picks[a.maps-1]].used != 0 {
			first-- // the last pick is the handle with the prefix
		}
		for i := at; i < a.creates; i++ {
			e.dropHandle(e.picks[first+i])
		}
		e.stats.Creates -= uint64(a.creates - at)
		a.short = a.creates - at
	}
	return out
}
