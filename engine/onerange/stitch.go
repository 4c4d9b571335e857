package onerange

import "stalloc/engine"

// A way to serve a request from wholly free handles: through an idle view whose
// handles are free or can be replaced, or a new one; by itself, or as an overhang,
// which continues a gap that ends where nothing is mapped behind it.
type way struct {
	view   uint32 // 0: a new one
	over   bool
	at     unit // of the view
	before unit // of the block that lies in the gap before an overhang
	cost   int
}

// stitch serves the request the cheapest way. What lacks is made first. False: it
// cannot be.
func (e *Engine) stitch(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if lack := a.n - e.freeHandles(a.space); lack > 0 {
		if a.full {
			return out, false
		}
		if _, missing, ok := e.bestVoid(a.space, a.n); ok && missing <= lack+pageUnits {
			return e.growFor(a.n, e.limit, out)
		}
		return e.growBy(lack, out)
	}
	w := way{cost: e.pickFree(a.n) * costMap}
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.space == a.space && v.block == 0 && !v.burnt {
			e.compare(&w, way{view: uint32(x), over: v.over, at: v.at})
		}
	}
	if e.price.steps > 0 {
		for _, v := range e.voids[a.space] {
			e.compare(&w, way{over: true, at: v.lo})
		}
	}
	return e.stitchBy(w, out)
}

// compare replaces the best way by another if that can be gone and is cheaper.
func (e *Engine) compare(best *way, w way) {
	a := &e.act
	if w.over {
		if w.before = e.below(a.space, w.at); w.before == 0 {
			return
		}
	}
	n := a.n - w.before
	if w.view != 0 {
		v := &e.views[w.view]
		if !w.over && (v.size < n || v.size > n+n/viewLoose+unitsOf(e.cfg.HandleMost)) {
			return
		}
		swaps := 0
		for _, h := range v.handles {
			if n <= 0 {
				break
			}
			if !e.isIn(v, h, n) || w.before > 0 && e.isIn2(h, w.at-w.before, w.at) {
				swaps++
			}
			n -= e.handles[h].size
		}
		if swaps > 0 && v.dirty || n > 0 && e.voidAt(a.space, v.at+v.size) < 0 {
			return
		}
		w.cost = swaps * costSwap
	}
	if n > 0 {
		w.cost += e.pickFree(n) * costMap
	}
	if w.cost < best.cost {
		*best = w
	}
}

// isIn reports whether the first n units of a handle under a view are free in its
// space.
func (e *Engine) isIn(v *view, h uint32, n unit) bool {
	c := &e.handles[h]
	return c.space == v.space && e.isFree(c.space, c.at, c.at+min(n, c.size))
}

func (e *Engine) isIn2(h uint32, lo, hi unit) bool {
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
func (e *Engine) freeHandles(s uint32) (n unit) {
	f := &e.spaces[s].free
	for g := f.nextBySize(e.gaps, 0); g != 0; g = f.nextBySize(e.gaps, g) {
		e.inGap(g, func(h uint32) bool { n += e.handles[h].size; return true })
	}
	return n
}

// inGap calls do with each handle that lies wholly in a gap, until it returns false.
func (e *Engine) inGap(g uint32, do func(h uint32) bool) {
	lo, hi := e.gaps[g].start(), e.gaps[g].end()
	for at := (lo + pageUnits - 1) / pageUnits * pageUnits; at < hi; {
		h := e.pages[at/pageUnits]
		c := &e.handles[h]
		end := c.at + c.size
		if c.at >= lo && end <= hi && !do(h) {
			return
		}
		at = end
	}
}

// pickFree chooses wholly free handles without the mark of n units together, those
// in the smallest gaps first, and returns their number.
func (e *Engine) pickFree(n unit) int {
	e.picks = e.picks[:0]
	f := &e.spaces[e.act.space].free
	for g := f.nextBySize(e.gaps, 0); g != 0 && n > 0; g = f.nextBySize(e.gaps, g) {
		e.inGap(g, func(h uint32) bool {
			if e.handles[h].mark != e.marks || e.marks == 0 {
				e.picks = append(e.picks, h)
				n -= e.handles[h].size
			}
			return n > 0
		})
	}
	return len(e.picks)
}

// A swap is a handle that comes under a view in another's place.
type swap struct {
	pos    int
	at     unit
	handle uint32
}

// stitchBy goes a way: it replaces the handles under the view that are not free and
// maps those that lack behind it.
func (e *Engine) stitchBy(w way, out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	e.marks++
	if g := e.find(a.space, w.at-1); w.over && g != 0 {
		e.inGap(g, func(h uint32) bool { e.handles[h].mark = e.marks; return true })
	}
	n := a.n - w.before
	e.swaps = e.swaps[:0]
	if w.view != 0 {
		v := &e.views[w.view]
		at := v.at
		for i, h := range v.handles {
			if n <= 0 {
				break
			}
			c := &e.handles[h]
			if e.isIn(v, h, n) && c.mark != e.marks {
				c.mark = e.marks
			} else {
				e.swaps = append(e.swaps, swap{pos: i, at: at})
			}
			at += c.size
			n -= c.size
		}
		if !e.pickSwaps(v) {
			return e.stitchBy(way{cost: w.cost}, out)
		}
	}
	e.picks = e.picks[:0]
	if n > 0 {
		e.pickFree(n)
	}
	var size unit
	for _, h := range e.picks {
		size += e.handles[h].size
	}
	if w.view == 0 && !w.over {
		base, class, ok := e.window.get(uint32(size / pageUnits))
		if !ok {
			a.torn, a.reason = true, engine.RefusedWindow
			return out, false
		}
		w.view = e.newView(view{space: a.space, at: unit(base) * pageUnits, class: class})
	} else if w.over && size > 0 {
		at := w.at
		if w.view != 0 {
			at += e.views[w.view].size
		}
		a.void, a.at = e.voidAt(a.space, at), at
		if c := e.voids[a.space][a.void]; c.hi-c.lo < size {
			return e.stitchBy(way{cost: w.cost}, out)
		}
		e.takeVoid(at + size)
		if w.view == 0 {
			w.view = e.newView(view{space: a.space, at: w.at, over: true})
		}
	}
	a.view, a.before = w.view, w.before
	if len(e.swaps)+len(e.picks) == 0 {
		e.stats.Fits++
		return e.grantView(out), true
	}
	e.stats.Stitches++
	e.stats.Patches += uint64(min(1, len(e.swaps)))
	return e.await(phaseStitch, e.stitchOps(out)), true
}

func (e *Engine) stitchOps(out []engine.Op) []engine.Op {
	for _, s := range e.swaps {
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr(s.at), Size: bytesOf(e.handles[s.handle].size)})
	}
	for _, s := range e.swaps {
		out = append(out, engine.Op{Kind: engine.OpMap, Addr: e.addr(s.at), Size: bytesOf(e.handles[s.handle].size), Handle: engine.Index(s.handle)})
	}
	v := &e.views[e.act.view]
	at := v.at + v.size
	for _, h := range e.picks {
		size := e.handles[h].size
		out = append(out, engine.Op{Kind: engine.OpMap, Addr: e.addr(at), Size: bytesOf(size), Handle: engine.Index(h)})
		at += size
	}
	for _, s := range e.swaps {
		out = append(out, engine.Op{Kind: engine.OpAccess, Addr: e.addr(s.at), Size: bytesOf(e.handles[s.handle].size)})
	}
	if from := v.at + v.size; at > from {
		out = append(out, engine.Op{Kind: engine.OpAccess, Addr: e.addr(from), Size: bytesOf(at - from)})
	}
	return out
}

// pickSwaps chooses a free handle for each swap, of the size of the one that goes;
// false if there are not as many.
func (e *Engine) pickSwaps(v *view) bool {
	f := &e.spaces[v.space].free
	left := len(e.swaps)
	for g := f.nextBySize(e.gaps, 0); g != 0 && left > 0; g = f.nextBySize(e.gaps, g) {
		e.inGap(g, func(h uint32) bool {
			if e.handles[h].mark == e.marks {
				return true
			}
			for i := range e.swaps {
				if s := &e.swaps[i]; s.handle == 0 && e.handles[v.handles[s.pos]].size == e.handles[h].size {
					s.handle = h
					e.handles[h].mark = e.marks
					left--
					break
				}
			}
			return left > 0
		})
	}
	return left == 0
}

// stitched enters what a batch has mapped. A view in which something is missing is
// dropped.
func (e *Engine) stitched(done int) {
	a := &e.act
	v := &e.views[a.view]
	k := len(e.swaps)
	for i, s := range e.swaps {
		if i < done {
			e.handles[v.handles[s.pos]].aliases--
			e.stats.Unmaps++
			if k+i < done {
				e.handles[s.handle].aliases++
				e.stats.Maps++
				v.handles[s.pos] = s.handle
			} else {
				v.holes = append(v.holes, s.pos)
			}
		}
	}
	for i, h := range e.picks {
		size := e.handles[h].size
		if 2*k+i < done {
			e.handles[h].aliases++
			e.stats.Maps++
			e.stats.Mapped += int(size / pageUnits)
			v.handles = append(v.handles, h)
			v.size += size
		} else if v.over {
			at := v.at + v.size
			for _, h := range e.picks[i:] {
				e.addVoid(a.space, at, at+e.handles[h].size)
				at += e.handles[h].size
			}
			break
		}
	}
}
