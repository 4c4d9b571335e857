package engine

// Private views. A large block stitched from scattered handles gets a view of its
// own, and no other block is ever placed in it. When the block is gone the view is
// idle, however many of its handles others have taken meanwhile through their own
// views; the next request of about that size takes the view over and replaces
// only those handles. Replacing thirty handles of a thousand costs thirty maps, and
// stitching anew costs a thousand.
//
// A page may be unmapped only when the work that used the address has passed: a
// fence recorded when the block was freed tells, and until then the view is dirty
// and can be used only as it is.
//
// Every handle of a private view was wholly free when it came, and all its bytes
// are within reach without the view: through another view, or from the list of
// free handles. So private views need no place in the size index, and small
// blocks do not break them up.

// patchCost is what replacing one page costs in maps: an unmap (16.5 µs) and a map
// with access rights (27 µs).
const patchCost = 1.6

// viewFence marks a value of Engine.fenceAt as a view's number, not a block's.
const viewFence = 1 << 31

// ownWaste: for so many pages of a private view one handle may be made that a shared one
// would not need, because it can end in a handle that is partly used. The next step is
// to find the private one as it was.
const ownWaste = 500

// choosePrivate returns the cheapest of best, taking over an idle private view, and,
// if best maps more than half of the block anyway, opening a private view. That may
// hold new handles: a block that has no place now will have none in the next step
// either. But not in the first step, when nobody else needs new memory less.
func (e *Engine) choosePrivate(best choice) choice {
	if !e.privacy() || best.pages < e.cfg.PatchPages {
		return best
	}
	few := best.fresh + int(e.act.n>>pageShift)/ownWaste
	over := e.choosePatch()
	if over.patch && (over.better(best) || over.fresh <= few && over.cost() < best.cost()) {
		return over
	}
	alone := e.weigh(0, 0, true)
	if (alone.fresh == 0 || alone.fresh <= few && !e.isFirst()) && 2*best.pages > alone.pages {
		alone.private = true
		return alone
	}
	return best
}

// choosePatch returns the idle private view that is cheapest to take over; patch is
// false if there is none.
func (e *Engine) choosePatch() choice {
	var best choice
	h := &e.heaps[e.act.heap]
	pages := int((e.act.n + pageMask) >> pageShift)
	for x := h.views[privateViews]; x != 0; x = e.views[x].next {
		v := &e.views[x]
		if v.blocks > 0 || v.lost || int(v.room) < pages || int(v.n) > 2*pages {
			continue
		}
		bad := min(max(int(v.n), pages)-v.free, pages)
		if bad == pages || v.dirty && bad > 0 {
			continue
		}
		c := choice{view: x, pages: bad, patch: true, fresh: max(bad-(h.freeCount-v.free), 0)}
		if !best.patch || c.better(best) {
			best = c
		}
	}
	return best
}

// fits reports whether page p of a private view can serve as page number i of the
// block as it is.
func (e *Engine) fits(p uint32, last bool) bool {
	x := e.pages[p].handle
	if x == 0 || e.handles[x].heap != e.act.heap {
		return false
	}
	c := &e.handles[x]
	rest := e.act.n & pageMask
	return c.used == 0 || last && rest != 0 && unit(c.edge[prefix]) >= rest
}

// patch takes over a private view: first it unmaps the pages that others use.
func (e *Engine) patch(c choice, out []Op) []Op {
	a := &e.act
	a.view = c.view
	e.undo = e.undo[:0]
	start := len(out)
	base := e.views[c.view].base + a.from
	pages := uint32((a.n + pageMask) >> pageShift)
	for p := base; p < base+pages; {
		q := p
		for q < base+pages && !e.fits(q, q == base+pages-1) {
			q++
		}
		out = e.unmapRange(p, q, start, out)
		p = max(q, p+1)
	}
	if len(out) == start {
		return e.fill(out)
	}
	a.phase = phasePatch
	return e.wait(out)
}

// fill maps free handles into the gaps of the private view and grants the block.
func (e *Engine) fill(out []Op) []Op {
	a := &e.act
	v := &e.views[a.view]
	pages := uint32((a.n + pageMask) >> pageShift)
	e.slots = e.slots[:0]
	base := v.base + a.from
	for p := base; p < base+pages; p++ {
		if e.pages[p].handle == 0 {
			e.slots = append(e.slots, p)
		}
	}
	if len(e.slots) == 0 {
		e.stats.Fits++
		return e.grantFree(a.view, unit(base)<<pageShift, out)
	}
	c := choice{view: a.view, pages: len(e.slots), private: true}
	whole := c.pages
	if rest := a.n & pageMask; rest != 0 && e.slots[whole-1] == base+pages-1 {
		if c.last = e.edgeFit(a.heap, prefix, rest, a.view, 0); c.last != 0 {
			whole--
		}
	}
	c.fresh = max(whole-(e.heaps[a.heap].freeCount-v.free), 0)
	// New handles of its own are not taken by others again. An arena uses what is idle.
	if !a.whole && a.rung == rungFirst && e.withinSlack(whole) {
		c.fresh = whole
	}
	if c.fresh > e.limit-e.stats.Handles || c.fresh > 0 && a.full {
		a.short = c.fresh
		return e.climb(out)
	}
	a.opened = false
	e.pick(c)
	e.stats.Patches++
	return e.emit(unit(base)<<pageShift, c, out)
}
