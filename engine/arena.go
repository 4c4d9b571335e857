package engine

import "stalloc/internal/mem"

// An arena is a block with a view of its own. The pool neither searches nor
// extends that view, so the addresses behind the arena stay free for it to grow:
// a later part is one more block, right behind the last. When an arena is given
// back its handles serve other views, and its view stays mapped as a cache; a
// later arena that fits into one whose handles are all free again costs no driver
// call.

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

// idleArena returns the smallest idle arena view that holds the request in free
// handles, if it is at most twice as large; zero if there is none.
func (e *Engine) idleArena() (best uint32) {
	pages := uint32(e.act.n >> pageShift)
	for x := e.heaps[e.act.heap].views[arenaViews]; x != 0; x = e.views[x].next {
		v := &e.views[x]
		if v.blocks == 0 && v.free == int(v.n) && v.n >= pages && v.n <= 2*pages && (best == 0 || v.n < e.views[best].n) {
			best = x
		}
	}
	return best
}
