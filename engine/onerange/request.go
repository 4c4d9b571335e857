package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// attempt is one way to serve a request; each comes when those before have failed.
type attempt uint8

const (
	attemptFit    attempt = iota // the smallest gap
	attemptBack                  // what was lent and is nobody's
	attemptStitch                // free handles under a view, with as many new ones as lack
	attemptGrow                  // new handles, whatever is free
	// idle handles of other arenas and blocks that wait for fences, after waiting for the device
	attemptWait
	attemptRemake // all that is free is given back, and made anew
	attemptSmall  // a small request goes where the large ones are
)

func (e *Engine) alloc(ev engine.Event, out []engine.Op) []engine.Op {
	e.act = action{asked: true, req: ev.Req, size: ev.Size, patient: ev.Means&engine.MeansWait != 0,
		lend:   ev.Means&engine.MeansBorrow != 0,
		reason: engine.RefusedDevice}
	a := &e.act
	if ev.Size < 0 || ev.Size > min(e.cfg.Window/2, Largest) {
		return e.refuse(engine.RefusedSize, out)
	}
	a.n = unit(mem.Round(ev.Size) / mem.Grain)
	a.heap = e.heapOf(heapKey{ev.Stream, ev.Pool})
	a.arena = large(a.heap)
	if mem.Round(ev.Size) <= e.cfg.SmallLimit && ev.Pool == 0 { // graphs are many, and small
		a.arena = small(a.heap)
	}
	at, planned := e.place(ev.Planned)
	if planned = planned && ev.Planned != 0; planned && e.isFree(a.arena, at, at+a.n) {
		e.stats.Hits++
		return e.grant(at, 0, out)
	}
	if ev.Means&engine.MeansPoll != 0 && e.idx.Total().Pending+e.leaving > 0 &&
		(planned || e.idx.Fit(a.arena, a.n).Size() == 0) {
		return e.refuse(engine.RefusedPending, out)
	}
	return e.try(out)
}

// try tries the attempts from the action's on.
func (e *Engine) try(out []engine.Op) []engine.Op {
	a := &e.act
	for ; ; a.attempt++ {
		ok := false
		switch a.attempt {
		case attemptFit:
			if g := e.idx.Fit(a.arena, a.n); g.Size() != 0 {
				e.stats.Fits++
				return e.grant(g.Lo, 0, out)
			}
		case attemptBack:
			if e.takeBack() {
				a.attempt = attemptFit
				return e.try(out)
			}
		case attemptStitch:
			if !e.cfg.Without.Has(without.Stitch) && !a.torn && isLarge(a.arena) {
				out, ok = e.stitch(out)
			}
		case attemptGrow:
			if !a.full {
				out, ok = e.growFor(a.n, e.limit, out)
			}
		case attemptWait:
			out, ok = e.wait(out)
		case attemptRemake:
			out, ok = e.remake(out)
		case attemptSmall:
			if isLarge(a.arena) {
				return e.refuse(a.reason, out)
			}
			a.arena = large(a.heap)
			a.full, a.attempt = false, attemptFit
			return e.try(out)
		}
		if ok {
			return out
		}
	}
}

// grant hands out the block at a place, or in a view.
func (e *Engine) grant(at unit, view uint32, out []engine.Op) []engine.Op {
	a := &e.act
	e.addBlock(a.arena, at, a.n, view, a.size)
	out = append(out, engine.Op{Kind: engine.OpGrant, Req: a.req, Addr: e.addr(at),
		Size: bytesOf(a.n)})
	e.act = action{}
	return out
}

func (e *Engine) grantView(out []engine.Op) []engine.Op {
	x := e.act.view
	return e.grant(e.views[x].at+e.act.skip, x, out)
}

// refuse answers the request with a reason.
func (e *Engine) refuse(why engine.Reason, out []engine.Op) []engine.Op {
	e.stats.Refused++
	if h := e.act.heap; h != 0 && e.empty(h) { // it was made for this request
		e.emptied = append(e.emptied, h)
	}
	out = append(out, engine.Op{Kind: engine.OpRefuse, Req: e.act.req, Reason: why,
		Code: e.act.code})
	e.act = action{}
	return out
}
