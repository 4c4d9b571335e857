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
// part begins at addr; false if something stands behind it, or nothing is left of
// its room.
func (e *Engine) lengthen(addr mem.Addr) bool {
	a := &e.act
	b := e.blockOf(addr)
	if b == 0 || !e.blocks[b].whole || e.blocks[b].state != blockLive {
		return false
	}
	c := &e.blocks[b]
	v := &e.views[c.view]
	if c.at+c.size != v.end() || v.heap != a.heap || v.n+uint32(a.n>>pageShift) > v.room {
		return false
	}
	a.after = c.view
	return true
}

// idleArena returns the view of a former arena that serves the request with the
// fewest pages replaced, and how many those are; zero if none saves a quarter of
// the maps that a new view takes.
func (e *Engine) idleArena() (best uint32, bad int) {
	pages := uint32(e.act.n >> pageShift)
	bad = int(pages) - int(pages)/4
	for x := e.heaps[e.act.heap].views[arenaViews]; x != 0; x = e.views[x].next {
		v := &e.views[x]
		if v.blocks > 0 || v.lost || v.room < pages {
			continue
		}
		n := 0
		for p := v.base; p < v.base+pages; p++ {
			if !e.fits(p, false) {
				n++
			}
		}
		if n < bad || n == bad && best == 0 {
			best, bad = x, n
		}
	}
	return best, bad
}

// reuseArena serves an arena from the view of a former one; false if there is
// none to use.
func (e *Engine) reuseArena(out []Op) ([]Op, bool) {
	x, bad := e.idleArena()
	switch {
	case x == 0:
		return out, false
	case bad == 0:
		e.stats.Fits++
		return e.grantFree(x, e.views[x].start(), out), true
	case e.views[x].dirty:
		// Pages may be replaced only when the work that used them has passed.
		// That is soon; a new view would cost far more.
		return e.refuse(RefusedBusy, out), true
	}
	return e.patch(choice{view: x, pages: bad, patch: true}, out), true
}

// Range is a stretch of addresses.
type Range struct {
	Addr mem.Addr
	Size mem.Bytes
}

// dissolve gives an arena back except for the blocks that live in it, which
// become blocks of the pool where they lie.
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
	for _, r := range ev.Keep {
		e.addBlock(x, unit(r.Addr-e.cfg.Base)/unit(mem.Grain), unit(mem.Round(r.Size)/mem.Grain))
	}
	return e.soil(x, out)
}
