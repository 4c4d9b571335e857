package onerange

import "stalloc/engine"

// growFor makes a gap of n units by new handles, in the void where the fewest are
// missing. If there are no addresses, a view makes way. False: the limit forbids it, or none can.
func (e *Engine) growFor(n unit, out []engine.Op) ([]engine.Op, bool) {
	v, missing, ok := e.bestVoid(e.act.arena, n)
	if !ok {
		return e.reuse(n, out)
	}
	return e.grow(v, missing, out)
}

// growBy makes so many units of new handles, wherever there are addresses.
func (e *Engine) growBy(missing unit, out []engine.Op) ([]engine.Op, bool) {
	v, _, ok := e.bestVoid(e.act.arena, 0)
	if !ok {
		return e.reuse(pageUnits, out)
	}
	c := &e.arenas[e.act.arena].voids[v]
	return e.grow(v, min(missing, c.hi-c.lo), out)
}

// grow maps handles of at least the missing units together at the beginning of void v: unmapped
// handles first, then new ones. False: the limit forbids it. With MeansWait it is refused where as
// much waits for fences, or other streams lend it.
func (e *Engine) grow(v int, missing unit, out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if need := missing - e.units(e.unmapped); need > 0 {
		if a.prefers(engine.MeansWait) && (e.idx.Total().Pending+e.lentPending >= need ||
			e.lentPending >= e.leastLent(need)) {
			return e.refuse(engine.RefusedPending, out), true
		}
		if out, ok := e.lend(need, out); ok {
			return out, true
		}
	}
	a.void, a.at = v, e.arenas[a.arena].voids[v].lo
	room := e.arenas[a.arena].voids[v].hi - a.at
	e.picks = e.picks[:0]
	for len(e.unmapped) > 0 && missing > 0 {
		h := e.unmapped[len(e.unmapped)-1]
		if e.handles[h].size > room {
			break
		}
		e.unmapped = e.unmapped[:len(e.unmapped)-1]
		e.picks = append(e.picks, h)
		room -= e.handles[h].size
		missing -= e.handles[h].size
	}
	a.creates = 0
	if missing > 0 {
		size := e.handleSize(a.arena, a.n)
		sum := growth(missing, size, e.growPart(a.arena), e.heldBefore(a.arena),
			min(room, e.limit-e.held))
		if a.unrounded {
			sum = pagesOf(missing)
		}
		a.rounded = sum > pagesOf(missing)
		if sum > room || e.held+sum > e.limit {
			e.unmapped = append(e.unmapped, e.picks...)
			a.reason = engine.RefusedLimit
			return out, false
		}
		for ; sum > 0; sum -= size {
			if size > sum {
				size = powerOf2(sum)
			}
			h := e.number()
			e.handles[h].size = size // counted once it exists
			e.picks = append(e.picks, h)
			a.creates++
			out = append(out, engine.Op{Kind: engine.OpCreate, Handle: engine.Index(h),
				Size: bytesOf(size)})
		}
	}
	return e.await(phaseGrow, e.mapPicks(out)), true
}

func (e *Engine) mapPicks(out []engine.Op) []engine.Op {
	at := e.act.at
	for _, h := range e.picks {
		size := e.handles[h].size
		out = append(out, engine.Op{Kind: engine.OpMap, Addr: e.addr(at), Size: bytesOf(size),
			Handle: engine.Index(h)})
		at += size
	}
	return append(out, engine.Op{Kind: engine.OpAccess, Addr: e.addr(e.act.at),
		Size: bytesOf(at - e.act.at)})
}

func (e *Engine) number() uint32 {
	if k := len(e.freeIDs); k > 0 {
		h := e.freeIDs[k-1]
		e.freeIDs = e.freeIDs[:k-1]
		return h
	}
	e.handles = append(e.handles, handle{})
	return uint32(len(e.handles) - 1)
}

// grown enters what a batch of growth has done: all of it, or what exists now is unmapped, but for
// the first ones, which ungrow unmaps.
func (e *Engine) grown(done int) {
	a := &e.act
	old := len(e.picks) - a.creates
	made := min(done, a.creates)
	for i, h := range e.picks[old:] {
		if i < made {
			e.held += e.handles[h].size
			e.stats.Creates++
		} else {
			e.handles[h] = handle{}
			e.freeIDs = append(e.freeIDs, h)
		}
	}
	if done == a.ops {
		e.addHandles()
		return
	}
	if made < a.creates && a.rounded {
		a.unrounded = true // the driver may have as much
	} else {
		a.createFailed = true
	}
	mapped := min(max(done-a.creates, 0), len(e.picks))
	e.unmapped = append(e.unmapped, e.picks[mapped:min(old+made, len(e.picks))]...)
	e.picks = e.picks[:mapped]
}

func (e *Engine) addHandles() {
	a := &e.act
	c := &e.arenas[a.arena]
	at := a.at
	for _, h := range e.picks {
		x := &e.handles[h]
		x.arena, x.at = a.arena, at
		e.setPlace(h, at, x.size)
		at += x.size
	}
	c.hold(at - a.at)
	e.stats.Maps += uint64(len(e.picks))
	e.stats.Mapped += int((at - a.at) / pageUnits)
	e.takeVoid(at)
	e.idx.Give(a.arena, a.at, at)
}

// ungrow unmaps what growth has mapped that the driver cut short: it may have no access. Its
// addresses are a view that serves nobody, until they are unmapped.
func (e *Engine) ungrow(out []engine.Op) []engine.Op {
	if len(e.picks) == 0 {
		return e.serve(out)
	}
	a, size := &e.act, e.units(e.picks)
	x := e.newView(view{arena: a.arena, extent: extent{at: a.at}, inArena: true, unmapFailed: true,
		size: size}, e.picks...)
	e.takeVoid(a.at + size)
	e.stats.Mapped += int(size / pageUnits)
	e.unmapped = append(e.unmapped, e.picks...)
	e.picks = append(e.picks[:0], x)
	return e.unmapViews(out)
}
