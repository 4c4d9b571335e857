package onerange

import (
	"math"

	"stalloc/engine"
)

// A way to serve a request from wholly free handles: through an idle view whose
// handles are free or can be replaced, or a new one; by itself, or as an overhang,
// which continues a gap that ends where nothing is mapped behind it.
type way struct {
	view   uint32 // 0: a new one
	over   bool
	at     unit // of the view
	before unit // of the block that lies in the gap before an overhang; < 0: how far behind the view's start it begins
	cost   int
	// Where the block begins and ends in parts of handles that are not under the view yet: these.
	first, last uint32
}

// stitch serves the request the cheapest way. What lacks is made first. False: it
// cannot be.
func (e *Engine) stitch(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	first, last, whole := e.ends(a.n)
	free := e.freeHandles(a.space)
	if lack := whole - free; lack > 0 {
		if a.full && (a.spared || e.spareUnits() < lack) {
			return out, false
		}
		a.spared = a.full
		if _, missing, ok := e.bestVoid(a.space, a.n); ok && missing <= lack+pageUnits {
			return e.growFor(a.n, e.limit, out)
		}
		return e.growBy(lack, out)
	}
	if out, anew := e.layRest(out); anew {
		return out, true
	}
	e.marks++ // what was chosen last is free to be chosen again
	begin := -e.pickNew()
	w := way{before: begin}
	w.cost = len(e.picks) * costMap
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.space == a.space && v.block == 0 && !v.burnt {
			e.compare(&w, way{view: uint32(x), over: v.over, at: v.at}, free)
			if !v.over && first.handle|last.handle != 0 {
				e.compare(&w, way{view: uint32(x), at: v.at, before: begin, first: first.handle, last: last.handle}, free)
			}
		}
	}
	if e.price.steps > 0 {
		for _, v := range e.voids[a.space] {
			e.compare(&w, way{over: true, at: v.lo}, free)
		}
	}
	return e.stitchBy(w, out)
}

// compare replaces the best way by another if that can be gone and is cheaper.
func (e *Engine) compare(best *way, w way, free unit) {
	a := &e.act
	if w.over {
		if w.before = e.below(a.space, w.at); w.before == 0 {
			return
		}
	}
	n := a.n - w.before
	if w.view != 0 {
		v := &e.views[w.view]
		if !w.over && w.first|w.last == 0 {
			if w.before = -e.taken(v); v.size < a.n-w.before {
				w.before = 0
			}
			n = a.n - w.before
		}
		if !w.over && v.size < n {
			return
		}
		swaps, spare := 0, free
		if w.before > 0 {
			e.inGap(e.find(a.space, w.at-1), func(h uint32) bool { spare -= e.handles[h].size; return true })
		}
		for i, h := range v.handles {
			if n <= 0 {
				break
			}
			size := e.handles[h].size
			if stays, by := e.stays(&w, i, n); stays && !(w.before > 0 && e.touches(h, w.at-w.before, w.at)) {
				if e.isIn(v, h, 0, size) {
					spare -= size
				}
			} else if swaps++; by == 0 {
				spare -= size
			}
			n -= size
		}
		if swaps > 0 && (v.dirty || spare < 0) || n > 0 && e.voidAt(a.space, v.at+v.size) < 0 {
			return
		}
		w.cost = swaps * costSwap
	}
	if n > 0 {
		if !e.pickFree(n) {
			return
		}
		w.cost += len(e.picks) * costMap
	}
	if w.cost < best.cost {
		*best = w
	}
}

// stays reports whether a handle under a view can stay there, of a block that has n units left
// from it on; if not, which one is to come, zero: any that is free.
func (e *Engine) stays(w *way, i int, n unit) (stays bool, by uint32) {
	v := &e.views[w.view]
	h := v.handles[i]
	skip := unit(0)
	if by = w.last; i == 0 {
		skip, by = max(-w.before, 0), w.first
	} else if n > e.handles[h].size {
		by = 0
	}
	if by != 0 && e.handles[by].size == e.handles[h].size && e.isIn(v, by, skip, n) {
		return h == by, by
	}
	return e.isIn(v, h, skip, n), 0
}

// isIn reports whether the units [skip, n) of a handle under a view are free in its
// space.
func (e *Engine) isIn(v *view, h uint32, skip, n unit) bool {
	c := &e.handles[h]
	return c.space == v.space && e.isFree(c.space, c.at+skip, c.at+min(n, c.size))
}

// taken returns how much of a view's first handle is taken, if its end is free.
func (e *Engine) taken(v *view) unit {
	c := &e.handles[v.handles[0]]
	g := e.find(v.space, c.at+c.size-1)
	if c.space != v.space || g == 0 {
		return 0
	}
	return max(e.gaps[g].start()-c.at, 0)
}

// touches reports whether the place of a handle has a part in [lo, hi).
func (e *Engine) touches(h uint32, lo, hi unit) bool {
	c := &e.handles[h]
	return c.at < hi && c.at+c.size > lo
}

// voidAt returns the void that begins at a place, or -1.
func (e *Engine) voidAt(s uint32, at unit) int {
	for i, v := range e.voids[s] {
		if v.lo == at {
			return i
		}
	}
	return -1
}

// freeHandles returns the units in wholly free handles of a space.
func (e *Engine) freeHandles(s uint32) unit { return e.freeBelow(s, math.MaxInt64) }

// freeBelow returns those in handles of less than size units.
func (e *Engine) freeBelow(s uint32, size unit) (n unit) {
	f := &e.spaces[s].free
	for g := f.nextBySize(e.gaps, 0); g != 0; g = f.nextBySize(e.gaps, g) {
		e.inGap(g, func(h uint32) bool {
			if e.handles[h].size < size {
				n += e.handles[h].size
			}
			return true
		})
	}
	return n
}
