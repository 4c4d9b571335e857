package onerange

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// trim gives back what is idle: of the default pools, or of one private pool that
// nobody will use any more.
func (e *Engine) trim(ev engine.Event, out []engine.Op) []engine.Op {
	e.act = action{trimming: trimming{active: true, pool: ev.Pool,
		requested: ev.Pool == 0 && !ev.Rollback, enough: unitsOf(ev.Asked)}}
	return e.giveBack(out)
}

func (e *Engine) giveBack(out []engine.Op) []engine.Op {
	pool, idle := e.act.pool, false
	delete(e.captured, pool)
	e.act.synced = false
	for h := 1; h < len(e.heaps); h++ {
		c := &e.heaps[h]
		if !e.trimmedBy(c, pool) {
			continue
		}
		if pool != 0 && pool < engine.FirstRegion {
			c.released = true
		}
		l, s := large(uint32(h)), small(uint32(h))
		idle = idle || e.idx.Room(l).Free+e.idx.Room(s).Free >= pageUnits || e.hasView(l, true)
	}
	if !idle {
		return e.release(out)
	}
	return e.await(phaseWait, e.sync(out))
}

// hasView reports whether there is a view of an arena, or only an idle one; also one that could not
// be unmapped.
func (e *Engine) hasView(s uint32, idle bool) bool {
	return slices.ContainsFunc(e.views, func(v view) bool {
		return v.arena == s && !(idle && v.block != 0)
	})
}

// trimmed reports whether the trim may take what an arena has.
func (e *Engine) trimmed(s uint32) bool {
	return s != 0 && e.act.synced && e.trimmedBy(&e.heaps[heapAt(s)], e.act.pool)
}

// dropIdle unmaps the idle views of a trim, and those that serve nobody, whose handles may be the
// trim's, wherever they are. Where so much is enough, what rests keeps its places: it has no memory
// to give, and plans rely on them.
func (e *Engine) dropIdle(out []engine.Op) []engine.Op {
	e.picks = e.picks[:0]
	for x := 1; x < len(e.views); x++ {
		v := &e.views[x]
		if e.act.enough > 0 && e.rests(v) {
			continue
		}
		if v.block == 0 && (e.trimmed(v.arena) || v.unmapFailed && e.act.synced) {
			e.picks = append(e.picks, uint32(x))
		}
	}
	if len(e.picks) == 0 {
		return e.unmapIdle(out)
	}
	return e.unmapViews(out)
}

// unmapViews unmaps the views in picks, a handle a call: one over several would take as long.
func (e *Engine) unmapViews(out []engine.Op) []engine.Op {
	for _, x := range e.picks {
		v := &e.views[x]
		at := v.at
		for i, h := range v.handles {
			size := e.handles[h].size
			if !slices.Contains(v.holes, i) {
				out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr(at),
					Size: bytesOf(size)})
			}
			at += size
		}
	}
	return e.await(phaseDrop, out)
}

// dropped forgets the views that are unmapped now. Of one that is not, the next trim
// tries what is left; until then it serves nobody.
func (e *Engine) dropped(done int) {
	for _, x := range e.picks {
		v := &e.views[x]
		v.unmapFailed = false
		for i := range v.handles {
			if slices.Contains(v.holes, i) {
				continue
			}
			if v.unmapFailed = done == 0; v.unmapFailed {
				break
			}
			done--
			v.holes = append(v.holes, i)
		}
		if !v.unmapFailed {
			e.dropView(x)
		}
	}
}

func (e *Engine) unmapIdle(out []engine.Op) []engine.Op {
	e.picks = e.picks[:0]
	for s := range e.allArenas() {
		if !e.trimmed(s) {
			continue
		}
		for h := range e.whole(s) {
			if e.handles[h].aliases == 0 {
				e.picks = append(e.picks, h)
			}
		}
	}
	if enough := e.act.enough; enough > 0 {
		for _, h := range e.unmapped {
			if e.handles[h].aliases == 0 { // else a view keeps its memory
				enough -= e.handles[h].size
			}
		}
		e.sortPicks()
		e.cutPicks(enough)
	}
	if len(e.picks) == 0 {
		return e.release(out)
	}
	return e.unmapPlaces(out)
}

func (e *Engine) release(out []engine.Op) []engine.Op {
	e.picks = e.picks[:0]
	for h, x := range e.handles {
		if x.size > 0 && x.arena == 0 && x.aliases == 0 {
			e.picks = append(e.picks, uint32(h))
			out = append(out, engine.Op{Kind: engine.OpRelease, Handle: engine.Index(h)})
		}
	}
	if len(e.picks) == 0 {
		return e.trimEnded(out)
	}
	return e.await(phaseRelease, out)
}

// trimEnded goes on with a request, or forgets what a private pool had.
func (e *Engine) trimEnded(out []engine.Op) []engine.Op {
	a := &e.act
	if a.remade {
		a.trimming.active, a.createFailed = false, false
		return e.serve(out)
	}
	for h := 1; h < len(e.heaps); h++ {
		if c := &e.heaps[h]; (c.released || e.isUncaptured(c) && e.trimmedBy(c, a.pool)) &&
			e.empty(uint32(h)) {
			e.retire(uint32(h))
		}
	}
	e.act = action{}
	return out
}

func (e *Engine) empty(h uint32) bool {
	for s := large(h); s <= small(h); s++ {
		if e.arenas[s].held > 0 || e.idx.Room(s).Load > 0 || e.hasView(s, false) {
			return false
		}
	}
	return true
}

// Forget forgets the streams that hold nothing any more, but for those that keep says, and
// returns them. Their numbers are used again.
func (e *Engine) Forget(keep func(mem.StreamID) bool) (gone []mem.StreamID) {
	slices.Sort(e.maybeEmpty) // one that is kept may be emptied in step after step
	e.maybeEmpty = slices.DeleteFunc(slices.Compact(e.maybeEmpty), func(h uint32) bool {
		c := &e.heaps[h]
		switch {
		case !e.empty(h), c.pool != 0 && !e.isUncaptured(c):
			return true
		case c.pool == 0 && keep(c.stream):
			return false
		case c.pool == 0:
			gone = append(gone, c.stream)
		}
		e.retire(h)
		return true
	})
	return gone
}

// retire gives the addresses of a heap back that holds nothing any more.
func (e *Engine) retire(h uint32) {
	for s := large(h); s <= small(h); s++ {
		c := &e.arenas[s]
		for _, x := range c.extents {
			e.window.put(x)
		}
		*c = arena{voids: c.voids[:0], extents: c.extents[:0]}
	}
	delete(e.heapOfKey, e.heaps[h].heapKey)
	e.heaps[h] = heap{heapKey: heapKey{pool: retired}}
	e.idx.Assign(h, 0, retired)
	e.spareHeaps = append(e.spareHeaps, h)
}

// retired stands in a heap that is nobody's.
const retired = 1<<64 - 1

func (e *Engine) released(done int) {
	if done > 0 && e.act.requested {
		e.trims.add(e.idx.Total().Steps)
	}
	for _, h := range e.picks[:done] {
		e.held -= e.handles[h].size
		e.handles[h] = handle{}
		e.freeIDs = append(e.freeIDs, h)
		e.stats.Releases++
	}
	e.unmapped = slices.DeleteFunc(e.unmapped,
		func(h uint32) bool { return e.handles[h].size == 0 })
}
