package onerange

import (
	"slices"

	"stalloc/engine"
)

// donor reports whether handles of an arena may serve the request at hand, in another one,
// once the device has been waited for. Private pools keep what they have: a graph that will be
// replayed remembers their addresses.
func (e *Engine) donor(s uint32) bool {
	return s != e.act.arena && e.heaps[heapAt(s)].reclaimable() && e.idx.Room(s).Free >= pageUnits
}

func (h *heap) reclaimable() bool { return h.pool == 0 || h.released }

// trimmedBy reports whether a trim of a pool may take what a heap has.
func (e *Engine) trimmedBy(h *heap, pool uint64) bool {
	return h.pool == pool || h.released && (pool == 0 || pool == engine.Released) ||
		e.isUncaptured(h) && pool == engine.Regions
}

// isCaptured reports whether graphs may remember the addresses of an arena: behind each stays the
// memory that is there.
func (e *Engine) isCaptured(s uint32) bool {
	pool := e.heaps[heapAt(s)].pool
	return pool != 0 && e.captured[pool]
}

// isUncaptured reports whether the heap is of a private pool, and no graph remembers its addresses.
func (e *Engine) isUncaptured(h *heap) bool {
	return h.pool != 0 && h.pool != retired && !e.captured[h.pool]
}

// wait waits for the device, once: then wholly free handles of other arenas can serve, and
// what waits for fences is free.
func (e *Engine) wait(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if a.waited {
		return out, false
	}
	a.waited = true
	idle := e.idx.Total().Pending+e.lentPending > 0
	for s := range e.allArenas() {
		idle = idle || e.donor(s) && e.freeHandles(s) > 0
	}
	if !idle {
		return out, false
	}
	return e.await(phaseWait, e.sync(out)), true
}

func (e *Engine) sync(out []engine.Op) []engine.Op {
	e.stats.Syncs++
	return append(out, engine.Op{Kind: engine.OpSync})
}

// adopt goes on with a request after the wait: it unmaps idle handles of other arenas, as many as
// the request's own falls short of.
func (e *Engine) adopt(out []engine.Op) []engine.Op {
	a := &e.act
	a.viewFailed = false
	e.picks = e.picks[:0]
	for s := range e.allArenas() {
		if a.synced && e.donor(s) {
			e.picks = slices.AppendSeq(e.picks, e.whole(s))
		}
	}
	e.cutPicks(a.n - e.freeHandles(a.arena))
	if len(e.picks) == 0 {
		return e.serve(out)
	}
	return e.unmapPlaces(out)
}

// unmapPlaces unmaps the places of the picks, all of them free, after a wait. They are unmapped
// then.
func (e *Engine) unmapPlaces(out []engine.Op) []engine.Op {
	for _, h := range e.picks {
		c := &e.handles[h]
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr(c.at),
			Size: bytesOf(c.size)})
	}
	return e.await(phaseUnmapPlaces, out)
}

func (e *Engine) placesUnmapped(done int) {
	for _, h := range e.picks[:done] {
		x := &e.handles[h]
		c := &e.arenas[x.arena]
		if !e.act.trimming.active {
			e.stats.Adopted++
		}
		e.idx.Take(x.arena, x.at, x.at+x.size)
		e.setPlace(0, x.at, x.size)
		if c.held -= x.size; c.held == 0 {
			e.maybeEmpty = append(e.maybeEmpty, heapAt(x.arena))
		}
		e.addVoid(x.arena, x.at, x.at+x.size)
		e.stats.Mapped -= int(x.size / pageUnits)
		x.arena, x.at = 0, 0
		e.unmapped = append(e.unmapped, h)
	}
}

// remake gives back all that is free, addresses of idle views too, so that as much can be made
// again where the request's stream needs it. False: that would not be enough.
func (e *Engine) remake(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	_, _, whole := e.ends(a.n)
	free := e.units(e.unmapped)
	for s := range e.allArenas() {
		if e.heaps[heapAt(s)].reclaimable() {
			free += e.freeHandles(s)
		}
	}
	if a.remade || free < whole {
		return out, false
	}
	a.remade, a.trimming.active = true, true
	return e.giveBack(out), true
}
