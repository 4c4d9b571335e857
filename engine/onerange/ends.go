package onerange

import (
	"slices"

	"stalloc/engine/index"
	"stalloc/internal/without"
)

// An end is the free part of a handle that begins or ends a gap: a block in a view may
// begin in one, and end in another.
type end struct {
	handle uint32 // 0: none
	size   unit
}

// tail returns what a gap has of the handle that it begins in, the handle's end.
func (e *Engine) tail(g index.Gap) end {
	h := e.pages[g.Lo/pageUnits]
	c := &e.handles[h]
	if c.at == g.Lo || c.at+c.size > g.Hi {
		return end{}
	}
	return end{h, c.at + c.size - g.Lo}
}

// head returns what a gap has of the handle that it ends in, the handle's beginning.
func (e *Engine) head(g index.Gap) end {
	h := e.pages[(g.Hi-1)/pageUnits]
	c := &e.handles[h]
	if c.at+c.size == g.Hi || c.at < g.Lo {
		return end{}
	}
	return end{h, g.Hi - c.at}
}

// ends chooses where a block of n units in a new view begins and ends, so that it takes
// the fewest wholly free handles in between, and returns how many units of those. Of
// equals the smallest: a block that is put into a gap has more use for the others.
func (e *Engine) ends(n unit) (first, last end, whole unit) {
	var largest [2]unit
	for g := range e.idx.Gaps(e.act.arena) {
		largest[0], largest[1] = max(largest[0], e.tail(g).size), max(largest[1], e.head(g).size)
	}
	if e.cfg.Without.Has(without.Ends) || e.act.wholeHandles && !e.act.createFailed {
		largest = [2]unit{}
	}
	whole = pagesOf(max(n-largest[0]-largest[1], 0))
	if n-whole > largest[1] {
		first = e.leastEnd(n-whole-largest[1], 0, e.tail)
	}
	if rest := n - whole - first.size; rest > 0 {
		if last = e.leastEnd(rest, first.handle, e.head); last.handle == 0 {
			whole = pagesOf(n - first.size)
		}
	}
	return first, last, whole
}

// leastEnd returns the smallest end of at least n units, but not of the handle except.
func (e *Engine) leastEnd(n unit, except uint32, of func(index.Gap) end) (least end) {
	for g := range e.idx.Gaps(e.act.arena) {
		if x := of(g); x.size >= n && x.handle != except &&
			(least.handle == 0 || x.size < least.size) {
			least = x
		}
	}
	return least
}

// pickNew chooses the handles of a new view for the request, and returns how far
// after the view's start its block begins.
func (e *Engine) pickNew() unit {
	first, last, whole := e.ends(e.act.n)
	e.pickFree(whole)
	if e.act.n > first.size+e.units(e.picks) {
		e.picks = append(e.picks, last.handle)
	}
	if first.handle == 0 {
		return 0
	}
	e.picks = slices.Insert(e.picks, 0, first.handle)
	return e.handles[first.handle].size - first.size
}

func pagesOf(n unit) unit { return roundUp(n, pageUnits) }
