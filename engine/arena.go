package engine

import "stalloc/internal/mem"

// An arena is a block with a view of its own. The pool neither searches nor
// extends that view, so the addresses behind the arena stay free for it to grow:
// a later part is one more block, right behind the last.
//
// When an arena is dissolved its handles serve the pool through the views that
// map them as well, and its own view stays mapped as a cache. The next arena
// takes the view over and replaces only the pages whose handles others hold by
// then (see patch.go): after a step that could not follow its plan, the plan is
// served again at the price of a few maps, or none.

// lengthen makes the request that is being served continue the arena whose last
// part begins at addr; false if something lives behind it, or the addresses end. A part
// that ends within a page (see dissolve) has the rest of that page from now on.
func (e *Engine) lengthen(addr mem.Addr) bool {
	a := &e.act
	b := e.blockOf(addr)
	if b == 0 || !e.blocks[b].whole || e.blocks[b].state != blockLive {
		return false
	}
	c := &e.blocks[b]
	v := &e.views[c.view]
	end := c.at + c.size
	page := (end + pageMask) &^ pageMask
	a.from = uint32(page>>pageShift) - v.base
	if v.heap != a.heap || v.lost || a.from+uint32(a.n>>pageShift) > 1<<v.class {
		return false
	}
	if e.blocksAbove(c.view, end) || end < page && e.freeAt(c.view, end, page) == 0 {
		return false
	}
	if end < page {
		e.take(c.view, end, page)
		c.size += page - end
		e.addLoad(page - end)
	}
	a.after = c.view
	return true
}

// blocksAbove reports whether a block of a view begins at or above a place.
func (e *Engine) blocksAbove(x uint32, at unit) bool {
	for i := range e.blocks {
		if b := &e.blocks[i]; b.state != blockGone && b.view == x && b.at >= at {
			return true
		}
	}
	return false
}

// misfits counts the pages of a view, from page from on, that the request cannot
// have as they are.
func (e *Engine) misfits(x, from uint32) (n int) {
	v := &e.views[x]
	for p := v.base + from; p < v.base+from+uint32(e.act.n>>pageShift); p++ {
		if !e.fits(p, false) {
			n++
		}
	}
	return n
}

// idleArena returns the view of a former arena that serves the request with the
// fewest pages replaced; zero if none saves a quarter of the maps that a new view
// takes.
func (e *Engine) idleArena() (best uint32) {
	pages := int(e.act.n >> pageShift)
	least := pages - pages/4
	for x := e.heaps[e.act.heap].views[arenaViews]; x != 0; x = e.views[x].next {
		v := &e.views[x]
		if v.blocks > 0 || v.lost || 1<<v.class < max(pages, int(e.act.room)) {
			continue
		}
		if n := e.misfits(x, 0); n < least || n == least && best == 0 {
			best, least = x, n
		}
	}
	return best
}

// reuseArena serves an arena, or a further part of one, at the addresses where an
// arena has been; false if there are none to use.
func (e *Engine) reuseArena(out []Op) ([]Op, bool) {
	a := &e.act
	x := a.after
	if x == 0 {
		if x = e.idleArena(); x == 0 {
			return out, false
		}
	}
	v := &e.views[x]
	if v.lost { // pages of it could not be unmapped: it is as long as it will be
		return e.refuse(RefusedWindow, out), true
	}
	v.room = max(v.room, a.from+uint32(a.n>>pageShift))
	bad, mapped := e.misfits(x, a.from), false
	for p := v.base + a.from; p < v.base+a.from+uint32(a.n>>pageShift) && !mapped; p++ {
		mapped = e.pages[p].handle != 0 && !e.fits(p, false)
	}
	if mapped && v.dirty {
		// Pages may be replaced only when the work that used them has passed.
		// That is soon; a new view would cost far more.
		return e.refuse(RefusedBusy, out), true
	}
	fresh := max(bad-(e.heaps[a.heap].freeCount-v.free), 0)
	if a.most > 0 && fresh > 0 && e.stats.Handles+fresh > a.most {
		return e.refuse(RefusedMost, out), true
	}
	return e.patch(choice{view: x, pages: bad, patch: true}, out), true
}

// Range is a stretch of addresses.
type Range struct {
	Addr mem.Addr
	Size mem.Bytes
}

// Block returns the size of a block of so many bytes, and how many of them were not
// asked for.
func (r Range) Block() (size, less mem.Bytes) {
	size = mem.Round(r.Size)
	return size, size - r.Size
}

// dissolve gives an arena back but for its first ev.Size bytes, which stay an
// arena, and the blocks that live above, which become blocks of the pool where
// they lie. What stays may end within a page, in which the first of those begins.
func (e *Engine) dissolve(ev Event, out []Op) []Op {
	x := uint32(0)
	for _, part := range ev.Parts {
		b := e.blockOf(part)
		if b == 0 || !e.blocks[b].whole || e.blocks[b].state != blockLive || x != 0 && e.blocks[b].view != x {
			return append(out, Op{Kind: OpUnknown, Addr: part})
		}
		x = e.blocks[b].view
	}
	if x == 0 {
		return append(out, Op{Kind: OpUnknown})
	}
	for _, part := range ev.Parts {
		e.dropBlock(e.blockOf(part))
	}
	if n := unit(mem.Round(ev.Size) / mem.Grain); ev.Size > 0 {
		e.blocks[e.addBlock(x, e.views[x].start(), n)].whole = true
	}
	for _, r := range ev.Keep {
		size, less := r.Block()
		b := e.addBlock(x, unit(r.Addr-e.cfg.Base)/unit(mem.Grain), unit(size/mem.Grain))
		e.blocks[b].less = uint16(less)
	}
	return e.soil(x, out)
}
