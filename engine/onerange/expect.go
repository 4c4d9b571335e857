package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// A plan of an earlier run knows where the blocks of a stream will lie before there is
// memory. So that its places are addresses, the space gets all of them at once; its memory
// comes with the requests, where they are wished. A run that turns out to be another holds
// no more for it than for the requests that it had.

// expect takes in what a plan says of a space.
func (e *Engine) expect(ev engine.Event, out []engine.Op) []engine.Op {
	s := e.spaceOf(e.heapOf(ev.Stream, 0), ev.Small)
	if len(e.extents[s]) == 0 && !e.extend(s, max(unitsOf(ev.Size), pageUnits)) {
		return out
	}
	e.spaces[s].expected = unitsOf(ev.Size)
	if ev.Handle > 0 {
		e.price.large, e.price.handle = true, powerOf2(min(unitsOf(ev.Handle), unitsOf(e.cfg.HandleMost)))
	}
	return out
}

// Extents returns the addresses that a stream's space has had, in the order in which it came
// to have them.
func (e *Engine) Extents(id mem.StreamID, small bool) []engine.Range {
	h := e.heapAt.get(heapKey(id, 0))
	if h == 0 {
		return nil
	}
	var all []engine.Range
	for _, x := range e.extents[e.spaceOf(h, small)] {
		all = append(all, engine.Range{Addr: e.addr(unit(x.base) * pageUnits), Size: bytesOf(unit(1) << x.class * pageUnits)})
	}
	return all
}

// Handle returns the size of the handles that the largest space grows by, if memory has
// been laid anew; else zero.
func (e *Engine) Handle() mem.Bytes {
	if !e.price.large {
		return 0
	}
	most := unit(0)
	for s := 1; s < len(e.spaces); s++ {
		if c := &e.spaces[s]; c.kind == largeSpace {
			most = max(most, e.handleSize(c, 0))
		}
	}
	return bytesOf(most)
}

// growToWish maps what a wished place lacks, where that is in memory that a plan expects: whole
// cells of the grid that handles of one size make, and nothing below them. False: nothing is
// mapped, or the rest is not free.
func (e *Engine) growToWish(at unit, out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	x := e.extents[a.space]
	if e.spaces[a.space].expected == 0 || len(x) == 0 {
		return out, false
	}
	origin, end := unit(x[0].base)*pageUnits, at+a.n
	if end > origin+e.spaces[a.space].expected {
		return out, false
	}
	for v, hole := range e.voids[a.space] {
		if end <= hole.lo || at >= hole.hi {
			continue
		}
		if at < hole.lo && !e.isFree(a.space, at, hole.lo) {
			return out, false
		}
		size := e.handleSize(&e.spaces[a.space], a.n)
		from := max(hole.lo, at-(at-origin)%size)
		return e.grow(v, from, min(end, hole.hi)-from, e.limit, out)
	}
	return out, false
}
