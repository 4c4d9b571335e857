package onerange

import "stalloc/engine"

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
// in the smallest gaps first. False: there are not as many.
func (e *Engine) pickFree(n unit) bool {
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
	return n <= 0
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
			if stays, by := e.stays(&w, i, n); stays && c.mark != e.marks {
				c.mark = e.marks
			} else {
				e.swaps = append(e.swaps, swap{pos: i, at: at, handle: by})
				e.handles[by].mark = e.marks
			}
			at += c.size
			n -= c.size
		}
		if !e.pickSwaps(v) {
			return e.stitchBy(way{}, out)
		}
	}
	e.picks = e.picks[:0]
	if w.view == 0 && !w.over {
		w.before = -e.pickNew()
	} else if n > 0 && !e.pickFree(n) {
		return e.stitchBy(way{}, out)
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
			return e.stitchBy(way{}, out)
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

// pickSwaps chooses a free handle for each swap that has none yet, of the size of the one that
// goes; false if there are not as many.
func (e *Engine) pickSwaps(v *view) bool {
	f := &e.spaces[v.space].free
	left := 0
	for _, s := range e.swaps {
		if s.handle == 0 {
			left++
		}
	}
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
	e.price.rent += min(done, k)*costUnmap + max(min(done-k, k+len(e.picks)), 0)*costMap
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
