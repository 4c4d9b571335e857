package onerange

import "stalloc/engine"

// What the driver takes for a handle, in tenths of a microsecond (docs: costs): to
// map one, and to replace one by another. Only their ratio matters.
const (
	costMap  = 270
	costSwap = 435
)

// looseView: a view serves a block that is at least 16/17 of it.
const looseView = 16

// stitch serves the request through a view over wholly free handles: an idle view
// whose handles are free or can be replaced, or a new one, whichever is cheaper. What
// lacks is made first. False: it cannot be.
func (e *Engine) stitch(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	free := e.freeHandles(a.space)
	if lack := a.n - free; lack > 0 {
		if a.full {
			return out, false
		}
		if _, missing, ok := e.bestVoid(a.space, a.n); ok && missing <= lack {
			return e.growFor(a.n, e.limit, out)
		}
		return e.growBy(lack, out)
	}
	x, cost := e.idleView()
	if fresh := e.pickFree(a.n) * costMap; x == 0 || fresh < cost {
		return e.stitchNew(out)
	}
	return e.patch(x, out)
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

// pickFree chooses wholly free handles of n units together, those in the smallest
// gaps first, and returns their number.
func (e *Engine) pickFree(n unit) int {
	e.picks = e.picks[:0]
	f := &e.spaces[e.act.space].free
	for g := f.nextBySize(e.gaps, 0); g != 0 && n > 0; g = f.nextBySize(e.gaps, g) {
		e.inGap(g, func(h uint32) bool {
			if e.handles[h].mark == e.marks && e.marks != 0 {
				return true
			}
			e.picks = append(e.picks, h)
			n -= e.handles[h].size
			return n > 0
		})
	}
	return len(e.picks)
}

func (e *Engine) stitchNew(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	e.marks++
	e.pickFree(a.n)
	var size unit
	for _, h := range e.picks {
		size += e.handles[h].size
	}
	base, class, ok := e.window.get(uint32(size / pageUnits))
	if !ok {
		a.torn, a.reason = true, engine.RefusedWindow
		return out, false
	}
	a.at, a.class = unit(base)*pageUnits, class
	return e.await(phaseStitch, e.mapPicks(out)), true
}

// stitched makes the view of what was mapped. It is usable if all calls succeeded,
// else it is to be dropped.
func (e *Engine) stitched(done int) {
	a := &e.act
	mapped := min(done, len(e.picks))
	e.stats.Maps += uint64(mapped)
	if mapped == 0 {
		e.window.put(uint32(a.at/pageUnits), a.class)
		a.view = 0
		return
	}
	e.stats.Stitches++
	a.view = e.newView(a.space, a.at, a.class, e.picks[:mapped])
}

// idleView returns the view that takes the request at the least cost, zero if there
// is none.
func (e *Engine) idleView() (best uint32, least int) {
	a := &e.act
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.space != a.space || v.block != 0 || v.burnt || v.size < a.n || v.size > a.n+a.n/looseView+unitsOf(e.cfg.HandleMost) {
			continue
		}
		cost, ok := e.occupied(v, a.n)
		cost *= costSwap
		if ok && (best == 0 || cost < least) {
			best, least = uint32(x), cost
		}
	}
	return best, least
}

// occupied counts the handles under the first n units of a view that are not free.
// False: they cannot be replaced, because work may still use the addresses.
func (e *Engine) occupied(v *view, n unit) (taken int, ok bool) {
	for _, h := range v.handles {
		c := &e.handles[h]
		size := min(n, c.size)
		if c.space != v.space || !e.isFree(c.space, c.at, c.at+size) {
			taken++
		}
		if n -= size; n == 0 {
			break
		}
	}
	return taken, taken == 0 || !v.dirty
}

// patch replaces the handles of a view that are not free by others of their size.
func (e *Engine) patch(x uint32, out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	v := &e.views[x]
	e.marks++
	n := a.n
	e.swaps = e.swaps[:0]
	for i, h := range v.handles {
		c := &e.handles[h]
		size := min(n, c.size)
		if c.space == v.space && e.isFree(c.space, c.at, c.at+size) {
			c.mark = e.marks
		} else {
			e.swaps = append(e.swaps, swap{pos: i})
		}
		if n -= size; n == 0 {
			break
		}
	}
	a.view = x
	if len(e.swaps) == 0 {
		e.stats.Fits++
		return e.grantView(out), true
	}
	if !e.pickSwaps(v) {
		return e.stitchNew(out)
	}
	e.stats.Patches++
	at := v.at
	next := 0
	for i, h := range v.handles {
		if next < len(e.swaps) && e.swaps[next].pos == i {
			e.swaps[next].at = at
			next++
		}
		at += e.handles[h].size
	}
	for _, s := range e.swaps {
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr(s.at), Size: bytesOf(e.handles[s.handle].size)})
	}
	for _, s := range e.swaps {
		out = append(out, engine.Op{Kind: engine.OpMap, Addr: e.addr(s.at), Size: bytesOf(e.handles[s.handle].size), Handle: engine.Index(s.handle)})
	}
	for _, s := range e.swaps {
		out = append(out, engine.Op{Kind: engine.OpAccess, Addr: e.addr(s.at), Size: bytesOf(e.handles[s.handle].size)})
	}
	return e.await(phasePatch, out), true
}

// A swap is a handle that comes under a view in another's place.
type swap struct {
	pos    int
	at     unit
	handle uint32
}

// pickSwaps chooses a free handle for each swap, of the size of the one that goes;
// false if there are not as many.
func (e *Engine) pickSwaps(v *view) bool {
	f := &e.spaces[v.space].free
	left := len(e.swaps)
	for i := range e.swaps {
		e.swaps[i].handle = 0
	}
	for g := f.nextBySize(e.gaps, 0); g != 0 && left > 0; g = f.nextBySize(e.gaps, g) {
		e.inGap(g, func(h uint32) bool {
			if e.handles[h].mark == e.marks {
				return true
			}
			for i := range e.swaps {
				if s := &e.swaps[i]; s.handle == 0 && e.handles[v.handles[s.pos]].size == e.handles[h].size {
					s.handle = h
					left--
					break
				}
			}
			return left > 0
		})
	}
	return left == 0
}

// patched enters what a batch of swaps has done. A view in which something is
// missing is dropped.
func (e *Engine) patched(done int) {
	v := &e.views[e.act.view]
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
}
