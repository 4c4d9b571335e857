package onerange

import (
	"math/bits"
	"slices"

	"stalloc/engine"
)

// The window is cut into extents of a power of two pages, one for each view and some for each
// arena. What is given back is kept by size and never merged: a view's size is one that comes
// again, and the window is tens of times as large as a device.
type addresses struct {
	next  unit // never used from here on
	limit unit
	spare [33][]unit // by class
}

// An extent is addresses from a place on, of 1 << class pages.
type extent struct {
	at    unit
	class uint8
}

func (x extent) room() unit { return pageUnits << x.class }

// get returns an extent of at least n units: one that was given back, a new one or, where there are
// no more, a larger one that was given back.
func (w *addresses) get(n unit) (x extent, ok bool) {
	least := extent{w.next, uint8(bits.Len64(uint64(pagesOf(n)/pageUnits - 1)))}
	for c := least.class; int(c) < len(w.spare); c++ {
		if spare := &w.spare[c]; len(*spare) > 0 {
			x = extent{(*spare)[len(*spare)-1], c}
			*spare = (*spare)[:len(*spare)-1]
			return x, true
		}
		if least.at+least.room() <= w.limit {
			w.next += least.room()
			return least, true
		}
	}
	return extent{}, false
}

func (w *addresses) put(x extent) { w.spare[x.class] = append(w.spare[x.class], x.at) }

// reuse gives back the addresses of an idle view, the smallest with n units: no others are left. A
// program whose blocks neither come again nor nest has ever more views. False: there is none.
func (e *Engine) reuse(n unit, out []engine.Op) ([]engine.Op, bool) {
	best := uint32(0)
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.arena == 0 || v.block != 0 || v.dirty || v.inArena || v.unmapFailed || v.room() < n ||
			e.isCaptured(v.arena) {
			continue
		}
		if best == 0 || v.class < e.views[best].class {
			best = uint32(x)
		}
	}
	if best == 0 {
		e.act.reason = engine.RefusedWindow
		return out, false
	}
	e.picks = append(e.picks[:0], best)
	return e.unmapViews(out), true
}

// extend gives an arena more addresses: the first stream's as many as the device has
// memory, others few, and each time twice as many.
func (e *Engine) extend(s uint32, n unit) bool {
	c := &e.arenas[s]
	want := max(2*n, 2*c.held)
	if len(e.heaps) == 2 && isLarge(s) && c.held == 0 {
		want = max(want, min(e.limit, unitsOf(e.cfg.Window)/4))
	}
	for ; ; want /= 2 {
		if want = max(want, n, pageUnits); want > unitsOf(e.cfg.Window) {
			return false
		}
		if x, ok := e.window.get(want); ok {
			c.extents = append(c.extents, x)
			e.addVoid(s, x.at, x.at+x.room())
			return true
		}
		if want <= max(n, pageUnits) {
			return false
		}
	}
}

// addVoid joins [lo, hi) with the voids beside it.
func (e *Engine) addVoid(s uint32, lo, hi unit) {
	voids := e.arenas[s].voids
	i := 0
	for i < len(voids) && voids[i].hi < lo {
		i++
	}
	j := i
	for ; j < len(voids) && voids[j].lo <= hi; j++ {
		lo, hi = min(lo, voids[j].lo), max(hi, voids[j].hi)
	}
	e.arenas[s].voids = slices.Replace(voids, i, j, void{lo, hi})
}

// bestVoid returns the void that, filled from below, makes a gap of n units out of
// the fewest new ones, and how many. The lowest of equals; of n = 0 the last void.
func (e *Engine) bestVoid(s uint32, n unit) (best int, missing unit, ok bool) {
	best = -1
	for i, v := range e.arenas[s].voids {
		need := pageUnits
		if n > 0 {
			need = pagesOf(n - e.idx.Gap(s, v.lo-1).Size())
		}
		if need > v.hi-v.lo {
			continue
		}
		if best < 0 || need < missing || n == 0 {
			best, missing = i, need
		}
	}
	if best >= 0 {
		return best, missing, true
	}
	if !e.extend(s, n) {
		return 0, 0, false
	}
	return e.bestVoid(s, n)
}

// takeVoid takes the addresses up to end out of the action's void.
func (e *Engine) takeVoid(end unit) {
	i, c := e.act.void, &e.arenas[e.act.arena]
	if c.voids[i].lo = end; end == c.voids[i].hi {
		c.voids = slices.Delete(c.voids, i, i+1)
	}
}
