package engine

import (
	"slices"

	"stalloc/internal/mem"
)

// stitch serves the request by mapping pages. Among extending the tail of each
// view of the heap and opening a new view, it takes what needs the fewest new
// handles, then the fewest maps.
func (e *Engine) stitch(out []Op) []Op {
	a := &e.act
	c := e.choose()
	a.slack = c.slack
	if a.most > 0 && c.fresh > 0 && e.stats.Handles+c.fresh > a.most {
		return e.refuse(RefusedMost, out)
	}
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

// apply carries a choice out: ops, state, block.
func (e *Engine) apply(c choice, out []Op) []Op {
	a := &e.act
	if c.patch {
		return e.patch(c, out)
	}
	a.view, a.opened = c.view, c.view == 0
	if a.opened {
		list := a.list
		if c.private {
			list = privateViews
		}
		if a.view = e.openView(a.heap, list, e.roomFor(c)); a.view == 0 {
			a.reason = RefusedWindow
			return e.climb(out)
		}
		e.views[a.view].big = c.private && e.isBig(a.n)
	}
	e.pick(c)
	v := &e.views[a.view]
	e.slots = e.slots[:0]
	for i := range e.picks {
		e.slots = append(e.slots, v.base+v.n+uint32(i))
	}
	at := v.end() - c.tail
	if c.head != 0 {
		at = v.end() + pageUnits - c.lead
	}
	return e.emit(at, c, out)
}

// emit maps e.picks at e.slots and grants the block at at.
func (e *Engine) emit(at unit, c choice, out []Op) []Op {
	a := &e.act
	a.phase = phasePlace
	a.peaks = e.stats.peaks()
	a.creates, a.maps = c.fresh, len(e.picks)
	for _, x := range e.picks[a.firstNew : a.firstNew+c.fresh] {
		out = append(out, Op{Kind: OpCreate, Handle: Index(x), Size: mem.HandleSize})
	}
	for i, x := range e.picks {
		out = append(out, Op{Kind: OpMap, Addr: e.addr(unit(e.slots[i]) << pageShift), Handle: Index(x), Size: mem.HandleSize})
	}
	out = e.ranges(OpAccess, e.slots, out)
	e.stats.Creates += uint64(a.creates)
	e.stats.Maps += uint64(a.maps)
	e.stats.Stitches++
	if !a.whole {
		e.economy.stitched += a.maps - a.creates
	}
	e.mapPages(a.view, e.slots, e.picks)
	return e.grant(a.view, at, out)
}

// ranges appends one op for each stretch of neighbouring pages.
func (e *Engine) ranges(kind OpKind, pages []uint32, out []Op) []Op {
	for i := 0; i < len(pages); {
		j := i + 1
		for j < len(pages) && pages[j] == pages[j-1]+1 {
			j++
		}
		out = append(out, Op{
			Kind: kind, Addr: e.addr(unit(pages[i]) << pageShift), Size: bytesOf(unit(j-i) << pageShift),
		})
		i = j
	}
	return out
}

// pick fills e.picks: the head, wholly free handles that the view does not map
// yet, in the order they were made so that neighbours stay neighbours, then new
// ones, then the handle that shares its beginning.
func (e *Engine) pick(c choice) {
	a := &e.act
	e.picks = e.picks[:0]
	whole := c.pages - c.fresh
	if c.last != 0 {
		whole--
	}
	if c.head != 0 {
		e.picks = append(e.picks, c.head)
	}
	first := len(e.picks)
	e.pickFree(c, whole)
	slices.Sort(e.picks[first:])
	a.firstNew = len(e.picks)
	for range c.fresh {
		e.picks = append(e.picks, e.newHandle(a.heap))
	}
	if c.last != 0 {
		e.picks = append(e.picks, c.last)
	}
}

// roomFor returns how many pages a view that is opened should reserve. Where new
// memory goes the range doubles, so that few views hold all of it; a view stitched
// from what is there gets room for a little.
func (e *Engine) roomFor(c choice) uint32 {
	a := &e.act
	room := 64
	switch {
	case c.private:
		room = c.pages + c.pages/4 // for one that is a little larger
	case a.whole:
		room = max(c.pages+c.pages/2, int(a.room)) // to grow into
	case c.fresh > 0 && c.head == 0:
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
		e.unmapPage(e.slots[i])
	}
	e.stats.Maps -= uint64(a.maps)
	a.undo = 0
	if done := min(max(at-a.creates, 0), a.maps); done > 0 {
		start := len(out)
		out = e.ranges(OpUnmap, e.slots[:done], out)
		e.stats.Maps += uint64(done)
		e.stats.Unmaps += uint64(done)
		a.undo = len(out) - start
		if !a.opened {
			v := &e.views[a.view]
			e.limbo = limbo{view: a.view, room: v.room}
			v.room = v.n
		}
	}
	if a.opened {
		e.limbo = limbo{base: e.views[a.view].base, class: e.views[a.view].class}
		e.closeView(a.view)
		if a.undo == 0 {
			e.freeLimbo()
		}
	}
	// Handles that were not created go. The picks still name them, in order.
	if at < a.creates {
		for i := at; i < a.creates; i++ {
			e.dropHandle(e.picks[a.firstNew+i])
		}
		e.stats.Creates -= uint64(a.creates - at)
		a.short = a.creates - at
	}
	e.stats.restore(a.peaks)
	return out
}
