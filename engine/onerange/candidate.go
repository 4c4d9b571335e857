package onerange

import (
	"stalloc/engine"
	"stalloc/internal/without"
)

// A candidate is one way to serve a request from wholly free handles: through an idle view
// whose handles are free or can be replaced, or a new one.
type candidate struct {
	view   uint32 // 0: a new one
	offset unit   // of the block in the view
	cost   int
	near   int // the least cost of a view that has just ended, and is a page short at most
}

// stitch serves the request by the cheapest view. If free handles fall short, it makes the
// shortfall first and is called again after that batch. It returns false if that is impossible.
func (e *Engine) stitch(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if e.tooFragmented(a.arena) && e.roomy() {
		return out, false
	}
	_, _, whole := e.ends(a.n)
	free := e.freeHandles(a.arena)
	if missing := whole - free; missing > 0 {
		if a.createFailed && (a.triedUnmapped || e.units(e.unmapped) < missing) {
			return out, false
		}
		a.triedUnmapped = a.createFailed
		if _, need, ok := e.bestVoid(a.arena, a.n); ok && need <= missing+pageUnits {
			return e.growFor(a.n, out)
		}
		return e.growBy(missing, out)
	}
	e.epoch++ // what was chosen last is free to be chosen again
	e.pickNew()
	best := candidate{cost: len(e.picks) * costMap, near: len(e.picks) * costMap}
	looked := 0 // handles under views
	for x := 1; x < len(e.views) && looked < mostLooked; x++ {
		if v := &e.views[x]; v.arena == a.arena && v.block == 0 && !v.unmapFailed && !v.inArena &&
			!e.cfg.Without.Has(without.Reuse) {
			looked += e.compare(&best, uint32(x), free)
		}
	}
	if a.prefers(engine.MeansWait) && best.cost > 0 && e.idx.Total().Pending >= a.n {
		return e.refuse(engine.RefusedPending, out), true
	}
	if best.view == 0 && best.near*regrowShare < best.cost && !a.wholeHandles && e.roomy() {
		a.wholeHandles = true
		return e.stitch(out)
	}
	return e.stitchBy(best, out)
}

// compare replaces the best candidate by one through a view if that can be had and is cheaper, and
// returns how many handles it has looked at.
func (e *Engine) compare(best *candidate, x uint32, free unit) (looked int) {
	a, v := &e.act, &e.views[x]
	c := candidate{view: x, offset: e.headUsed(v)}
	if v.size < a.n+c.offset {
		c.offset = 0
	}
	n := a.n + c.offset
	if n > v.room() {
		return 1
	}
	more := max(n-v.size, 0)
	swaps, spare, skip := 0, free-more, c.offset
	for _, h := range v.handles {
		if n <= 0 || swaps*costSwap >= best.cost {
			break
		}
		looked++
		size := e.handles[h].size
		if stays := e.isIn(v, h, skip, n); !stays {
			swaps++
			spare -= size
		} else if e.isIn(v, h, 0, size) {
			spare -= size
		}
		n, skip = n-size, 0
	}
	captured := e.isCaptured(v.arena) // a view that fails is unmapped
	c.cost = swaps * costSwap
	if more > 0 { // in handles as large as a new view's
		c.cost += costMap * (1 + int(more*unit(len(e.picks))/a.n))
	}
	if v.dirty && !captured && spare >= -pageUnits {
		best.near = min(best.near, c.cost)
	}
	if c.near = best.near; c.cost < best.cost &&
		(c.cost == 0 || spare >= 0 && !captured && (swaps == 0 || !v.dirty)) {
		*best = c
	}
	return looked + 1
}

// isIn reports whether the units [skip, n) of a handle under a view are free in its
// arena.
func (e *Engine) isIn(v *view, h uint32, skip, n unit) bool {
	c := &e.handles[h]
	return c.arena == v.arena && e.isFree(c.arena, c.at+skip, c.at+min(n, c.size))
}

// headUsed returns how much of a view's first handle is taken, if its end is free.
func (e *Engine) headUsed(v *view) unit {
	c := &e.handles[v.handles[0]]
	g := e.idx.Gap(v.arena, c.at+c.size-1)
	if c.arena != v.arena || g.Size() == 0 {
		return 0
	}
	return max(g.Lo-c.at, 0)
}
