package onerange

import "stalloc/engine"

// boundary ends a step. Behind the first one the memory is laid anew: what is free
// goes back to the driver, and comes again as larger handles, contiguous.
func (e *Engine) boundary(_ engine.Event, out []engine.Op) []engine.Op {
	if e.stats.Load == 0 {
		return out
	}
	e.boundaries++
	e.first = e.boundaries < 2
	if e.boundaries == e.cfg.Rebuild {
		e.large = true
		before := e.held
		out = e.trim(engine.Event{}, out)
		e.act.again = before
	}
	return out
}

// relay makes what a rebuild has given back anew.
func (e *Engine) relay(out []engine.Op) []engine.Op {
	a := &e.act
	lack := a.again - e.held
	*a = action{}
	for s := range e.spaces {
		if c := &e.spaces[s]; c.kind == largeSpace && c.peak > e.spaces[a.space].peak {
			a.space = uint32(s)
		}
	}
	if lack < pageUnits {
		return out
	}
	out, _ = e.growBy(lack, out)
	return out
}
