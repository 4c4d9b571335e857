package onerange

import "slices"

// An extent is what an arena has of the window's addresses at a time.
type extent struct {
	base  uint32
	class uint8
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
		base, class, ok := e.window.get(uint32((want + pageUnits - 1) / pageUnits))
		if ok {
			c.extents = append(c.extents, extent{base, class})
			e.addVoid(s, unit(base)*pageUnits, unit(base+1<<class)*pageUnits)
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
func (e *Engine) bestVoid(s uint32, n unit) (best int, lack unit, ok bool) {
	best = -1
	for i, v := range e.arenas[s].voids {
		missing := n - e.below(s, v.lo)
		if n == 0 {
			missing = pageUnits
		}
		missing = (missing + pageUnits - 1) / pageUnits * pageUnits
		if missing > v.hi-v.lo {
			missing = v.hi - v.lo
			if e.below(s, v.lo)+missing+e.above(s, v.hi) < n {
				continue
			}
		}
		if best < 0 || missing < lack || n == 0 {
			best, lack = i, missing
		}
	}
	if best >= 0 {
		return best, lack, true
	}
	if !e.extend(s, n) {
		return 0, 0, false
	}
	return e.bestVoid(s, n)
}

func (e *Engine) below(s uint32, at unit) unit {
	return e.idx.Gap(s, at-1).Size()
}

func (e *Engine) above(s uint32, at unit) unit {
	return e.idx.Gap(s, at).Size() // what ends there is the void
}

// takeVoid takes the addresses up to end out of the action's void.
func (e *Engine) takeVoid(end unit) {
	i, c := e.act.void, &e.arenas[e.act.arena]
	if c.voids[i].lo = end; end == c.voids[i].hi {
		c.voids = slices.Delete(c.voids, i, i+1)
	}
}
