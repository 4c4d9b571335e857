package onerange

import "slices"

// A view is a private address range of one block, over handles that lie apart in
// their space. When its block is freed the bytes go back to the space, and the view
// stays mapped: a later block that it is large enough for takes it over, once the
// handles under it are free or replaced.
type view struct {
	space   uint32 // 0: not used
	at      unit
	class   uint8    // of its extent
	handles []uint32 // in order
	holes   []int    // in it: positions where nothing is mapped any more; such a view is being dropped
	size    unit     // of the handles together
	over    bool     // an overhang: it continues the range, and its block begins in the gap before it
	block   uint32   // that lies in it, 0: idle
	fence   uint64   // behind the last block's work, 0: passed or not recorded
	dirty   bool     // work may still use the addresses
	burnt   bool     // it could not be unmapped, and serves nobody
	used    uint64   // when its block was freed
}

// parts calls do with what the n units of a block from at on are in its space: the
// end of a gap if the view is an overhang and the block begins before it, and the
// handles of the view from the first on, of which the block may leave the start out.
func (e *Engine) parts(x uint32, at, n unit, do func(lo, hi unit)) {
	if before := e.views[x].at - at; before > 0 {
		do(at, at+before)
		n -= before
	}
	skip := max(at-e.views[x].at, 0)
	for _, h := range e.views[x].handles {
		c := &e.handles[h]
		size := min(n, c.size-skip)
		do(c.at+skip, c.at+skip+size)
		if n -= size; n == 0 {
			return
		}
		skip = 0
	}
}

// newView numbers a view that maps nothing yet.
func (e *Engine) newView(v view) uint32 {
	v.used = e.clock
	if n := len(e.spareViews); n > 0 {
		x := e.spareViews[n-1]
		e.spareViews = e.spareViews[:n-1]
		v.handles = e.views[x].handles[:0]
		e.views[x] = v
		return x
	}
	e.views = append(e.views, v)
	return uint32(len(e.views) - 1)
}

// dropView forgets a view that is not mapped any more.
func (e *Engine) dropView(x uint32) {
	v := &e.views[x]
	for i, h := range v.handles {
		if !slices.Contains(v.holes, i) {
			e.handles[h].aliases--
		}
	}
	if v.fence != 0 {
		e.fenceAt.del(v.fence)
	}
	e.stats.Mapped -= int(v.size / pageUnits)
	if v.over {
		e.addVoid(v.space, v.at, v.at+v.size)
	} else {
		e.window.put(uint32(v.at/pageUnits), v.class)
	}
	*v = view{handles: v.handles[:0]}
	e.spareViews = append(e.spareViews, x)
}

// clean notes that the work on a view's addresses has passed.
func (e *Engine) clean(x uint32) {
	v := &e.views[x]
	if v.fence != 0 {
		e.fenceAt.del(v.fence)
	}
	v.fence, v.dirty = 0, false
}
