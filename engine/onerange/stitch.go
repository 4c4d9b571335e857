package onerange

import (
	"cmp"
	"slices"

	"stalloc/engine"
)

// pickFree chooses wholly free handles of n units together that were not picked in this epoch: the
// largest, so that they are few, and of equals those in the smallest gaps. False: there are not as
// many.
func (e *Engine) pickFree(n unit) bool {
	e.picks = e.picks[:0]
	for h := range e.whole(e.act.arena) {
		if e.handles[h].epoch != e.epoch {
			e.picks = append(e.picks, h)
		}
	}
	e.sortPicks()
	return e.cutPicks(n) <= 0
}

// sortPicks brings the largest of the picked handles to the front.
func (e *Engine) sortPicks() {
	slices.SortStableFunc(e.picks, func(a, b uint32) int {
		return cmp.Compare(e.handles[b].size, e.handles[a].size)
	})
}

// cutPicks keeps of the picked handles as many, from the first on, as have n units together. It
// returns how many units those fall short; below 0: there are more.
func (e *Engine) cutPicks(n unit) (short unit) {
	k := 0
	for ; k < len(e.picks) && n > 0; k++ {
		n -= e.handles[e.picks[k]].size
	}
	e.picks = e.picks[:k]
	return n
}

func (e *Engine) units(handles []uint32) (n unit) {
	for _, h := range handles {
		n += e.handles[h].size
	}
	return n
}

// A swap is a handle that comes under a view in another's place.
type swap struct {
	pos    int
	at     unit
	handle uint32
}

// stitchBy serves the request by a candidate: it replaces the handles under the view that are not
// free, or maps a new view.
func (e *Engine) stitchBy(c candidate, out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	e.epoch++
	e.swaps, e.picks = e.swaps[:0], e.picks[:0]
	if c.view != 0 {
		v := &e.views[c.view]
		more := a.n + c.offset - v.size
		if !e.pickUnder(&c) || more > 0 &&
			(!e.pickFree(more) || v.size+e.units(e.picks) > v.room()) {
			return e.stitchBy(candidate{}, out)
		}
	} else {
		c.offset = e.pickNew()
		x, ok := e.window.get(e.units(e.picks))
		if !ok {
			out, ok = e.reuse(e.units(e.picks), out)
			a.viewFailed = !ok
			return out, ok
		}
		c.view = e.newView(view{arena: a.arena, extent: x})
	}
	a.view, a.offset = c.view, c.offset
	if len(e.swaps)+len(e.picks) == 0 {
		e.stats.Fits++
		return e.grantView(out), true
	}
	e.stats.Stitches++
	return e.await(phaseStitch, e.stitchOps(out)), true
}

// pickUnder chooses what comes under a candidate's view in place of what cannot stay: a free handle
// of the same size for each. False: there is not as much.
func (e *Engine) pickUnder(c *candidate) bool {
	v := &e.views[c.view]
	at, n, skip := v.at, e.act.n+c.offset, c.offset
	for i, h := range v.handles {
		if n <= 0 {
			break
		}
		x := &e.handles[h]
		if e.isIn(v, h, skip, n) && x.epoch != e.epoch {
			x.epoch = e.epoch
		} else {
			e.swaps = append(e.swaps, swap{pos: i, at: at})
		}
		at, n, skip = at+x.size, n-x.size, 0
	}
	left := len(e.swaps)
	for h := range e.whole(v.arena) {
		x := &e.handles[h]
		i := slices.IndexFunc(e.swaps, func(s swap) bool {
			return s.handle == 0 && e.handles[v.handles[s.pos]].size == x.size
		})
		if x.epoch != e.epoch && i >= 0 {
			e.swaps[i].handle, x.epoch = h, e.epoch
			left--
		}
	}
	return left == 0
}

func (e *Engine) stitchOps(out []engine.Op) []engine.Op {
	for _, s := range e.swaps {
		at, size := e.addr(s.at), bytesOf(e.handles[s.handle].size)
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: at, Size: size},
			engine.Op{Kind: engine.OpMap, Addr: at, Size: size, Handle: engine.Index(s.handle)},
			engine.Op{Kind: engine.OpAccess, Addr: at, Size: size})
	}
	v := &e.views[e.act.view]
	if e.act.at = v.at + v.size; len(e.picks) > 0 {
		out = e.mapPicks(out)
	}
	return out
}

// stitched enters what a batch has mapped. A view in which something is missing is
// dropped.
func (e *Engine) stitched(done int) {
	a := &e.act
	v := &e.views[a.view]
	for _, s := range e.swaps {
		if done > 1 {
			e.handles[v.handles[s.pos]].aliases--
			e.handles[s.handle].aliases++
			e.stats.Maps++
			v.handles[s.pos] = s.handle
		} else if done > 0 {
			v.holes = append(v.holes, s.pos)
		}
		done -= 3
	}
	for _, h := range e.picks[:min(max(done, 0), len(e.picks))] {
		size := e.handles[h].size
		e.handles[h].aliases++
		e.stats.Maps++
		e.stats.Mapped += int(size / pageUnits)
		v.handles = append(v.handles, h)
		v.size += size
	}
}
