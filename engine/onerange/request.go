package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

func (e *Engine) alloc(ev engine.Event, out []engine.Op) []engine.Op {
	e.act = action{request: request{req: ev.Req, size: ev.Asked, means: ev.Means,
		reason: engine.RefusedDevice}}
	a := &e.act
	if ev.Asked < 0 || ev.Asked > min(e.cfg.Window/2, Largest) {
		return e.refuse(engine.RefusedSize, out)
	}
	a.n = unit(mem.Round(ev.Asked) / mem.Grain)
	heap := e.heapOf(&ev)
	a.arena = large(heap)
	if mem.Round(ev.Asked) <= e.cfg.SmallLimit && ev.Pool == 0 { // graphs are many, and small
		a.arena = small(heap)
	}
	at, planned := e.place(ev.Addr)
	if ev.Exact {
		return e.allocExact(at, out)
	}
	if planned = planned && ev.Addr != 0; planned && e.isFree(a.arena, at, at+a.n) {
		e.stats.Hits++
		return e.grant(at, 0, out)
	}
	if planned && a.prefers(engine.MeansRise) && e.isFreeOnceRisen(a.arena, at, at+a.n) {
		return e.refuse(engine.RefusedResting, out)
	}
	if a.prefers(engine.MeansPoll) && e.idx.Total().Pending+e.lentPending > 0 &&
		(planned || e.idx.Fit(a.arena, a.n).Size() == 0) {
		return e.refuse(engine.RefusedPending, out)
	}
	return e.serve(out)
}

// allocExact serves a request at a place: in its arena, or in an idle view that lies there.
func (e *Engine) allocExact(at unit, out []engine.Op) []engine.Op {
	a := &e.act
	if e.isFree(a.arena, at, at+a.n) {
		return e.grant(at, 0, out)
	}
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if v.arena != a.arena || v.block != 0 || v.inArena || v.unmapFailed || at < v.at ||
			at-v.at >= e.handles[v.handles[0]].size || at+a.n > v.at+v.size {
			continue
		}
		free := true
		e.parts(uint32(x), at, a.n, func(lo, hi unit) { free = free && e.isFree(a.arena, lo, hi) })
		if free {
			return e.grant(at, uint32(x), out)
		}
	}
	return e.refuse(engine.RefusedPlace, out)
}

// serve tries one way after the other (package documentation), and comes here again after a batch
// that has changed what there is. A small request goes where the large ones are in the end.
func (e *Engine) serve(out []engine.Op) []engine.Op {
	a := &e.act
	for {
		if g := e.idx.Fit(a.arena, a.n); g.Size() != 0 {
			e.stats.Fits++
			return e.grant(g.Lo, 0, out)
		}
		if e.takeBack() {
			continue
		}
		ok := false
		if !e.cfg.Without.Has(without.Stitch) && !a.viewFailed && isLarge(a.arena) {
			if out, ok = e.stitch(out); ok {
				return out
			}
		}
		if !a.createFailed {
			if out, ok = e.growFor(a.n, out); ok {
				return out
			}
		}
		if a.prefers(engine.MeansRoom) {
			return e.refuse(a.reason, out)
		}
		if out, ok = e.wait(out); ok {
			return out
		}
		if out, ok = e.remake(out); ok {
			return out
		}
		if isLarge(a.arena) {
			return e.refuse(a.reason, out)
		}
		a.arena, a.createFailed = large(heapAt(a.arena)), false
	}
}

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
	return e.grant(e.views[x].at+e.act.offset, x, out)
}

func (e *Engine) refuse(why engine.Reason, out []engine.Op) []engine.Op {
	e.stats.Refused++
	if h := heapAt(e.act.arena); h != 0 && e.empty(h) { // it was made for this request
		e.maybeEmpty = append(e.maybeEmpty, h)
	}
	out = append(out, engine.Op{Kind: engine.OpRefuse, Req: e.act.req, Reason: why,
		Code: e.act.code})
	e.act = action{}
	return out
}
