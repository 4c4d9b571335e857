package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// rung is one way to serve a request; each comes when those before have failed.
type rung uint8

const (
	rungWish    rung = iota // the wished place
	rungFit                 // the smallest gap
	rungPeak                // new handles, within the peak load
	rungStitch              // free handles under a view, with as many new ones as lack
	rungGrow                // new handles, whatever is free
	rungIdle                // idle handles of other spaces, after waiting for their streams
	rungPending             // blocks that wait for fences, after waiting for all streams
	rungAnew                // all that is free anew, in the smallest handles
	rungSmall               // a small request goes where the large ones are
)

func (e *Engine) alloc(ev engine.Event, out []engine.Op) []engine.Op {
	e.act = action{asked: true, req: ev.Req, size: ev.Size, brief: ev.Brief, reason: engine.RefusedDevice}
	a := &e.act
	if ev.Size < 0 || ev.Size > min(e.cfg.Window/2, Largest) {
		return e.refuse(engine.RefusedSize, out)
	}
	a.n = unit(mem.Round(ev.Size) / mem.Grain)
	a.heap = e.heapOf(ev.Stream, ev.Pool)
	a.space = e.heaps[a.heap].spaces[largeSpace]
	if mem.Round(ev.Size) <= e.cfg.SmallLimit && ev.Pool == 0 { // graphs are many, and small
		a.space = e.heaps[a.heap].spaces[smallSpace]
	}
	at, ok := e.place(ev.Wish)
	if ok = ok && ev.Wish != 0; ok {
		a.wish, a.stay = at, ev.Held
		var grown bool
		if out, grown = e.tryWish(out); grown {
			return out
		}
	}
	if ev.Poll && e.stats.Pending > 0 && (ok || e.spaces[a.space].free.bestFit(e.gaps, a.n) == 0) {
		return e.refuse(engine.RefusedPending, out)
	}
	return e.climb(out)
}

// tryWish serves a request where it is wished, or maps what lacks there.
func (e *Engine) tryWish(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if a.wish == 0 {
		return out, false
	}
	if e.isFree(a.space, a.wish, a.wish+a.n) {
		e.stats.Wished++
		return e.grant(a.wish, 0, out), true
	}
	if a.full || a.stay {
		return out, false
	}
	return e.growToWish(a.wish, out)
}

// climb tries the rungs from the action's on.
func (e *Engine) climb(out []engine.Op) []engine.Op {
	a := &e.act
	for ; ; a.rung++ {
		ok := false
		switch a.rung {
		case rungWish:
			out, ok = e.tryWish(out)
		case rungFit:
			if g := e.spaces[a.space].free.bestFit(e.gaps, a.n); g != 0 {
				e.stats.Fits++
				if a.brief && !a.grown { // behind a gap that has grown memory may go on growing
					return e.grant(e.gaps[g].end()-a.n, 0, out)
				}
				return e.grant(e.gaps[g].start(), 0, out)
			}
		case rungPeak:
			if !a.grown && !a.full {
				out, ok = e.growWithin(out)
			}
		case rungStitch:
			if e.cfg.Stitch && !a.torn && e.spaces[a.space].kind == largeSpace {
				out, ok = e.stitch(out)
			}
		case rungGrow:
			if !a.full {
				out, ok = e.growFor(a.n, e.limit, out)
			}
		case rungIdle:
			out, ok = e.waitIdle(out)
		case rungPending:
			out, ok = e.waitAll(out)
		case rungAnew:
			out, ok = e.anew(out)
		case rungSmall:
			if e.spaces[a.space].kind == largeSpace {
				return e.refuse(a.reason, out)
			}
			a.space = e.heaps[a.heap].spaces[largeSpace]
			a.full, a.rung, a.wish = false, rungFit, 0
			return e.climb(out)
		}
		if ok {
			return out
		}
	}
}

// grant hands out the block at a place, or in a view.
func (e *Engine) grant(at unit, view uint32, out []engine.Op) []engine.Op {
	a := &e.act
	e.addBlock(a.space, at, a.n, view, a.size)
	out = append(out, engine.Op{Kind: engine.OpGrant, Req: a.req, Addr: e.addr(at), Size: bytesOf(a.n)})
	e.act = action{}
	return out
}

func (e *Engine) grantView(out []engine.Op) []engine.Op {
	x := e.act.view
	return e.grant(e.views[x].at-e.act.before, x, out)
}

// refuse answers the request with a reason.
func (e *Engine) refuse(why engine.Reason, out []engine.Op) []engine.Op {
	e.stats.Refused++
	out = append(out, engine.Op{Kind: engine.OpRefuse, Req: e.act.req, Reason: why, Code: e.act.code})
	e.act = action{}
	return out
}
