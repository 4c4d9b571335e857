package onerange

import (
	"cmp"
	"slices"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// One stream's memory serves another: before memory is made for a stream, others lend theirs, in
// wholly free handles. A lent handle serves nobody until the work that its stream has queued so far
// has passed a fence; then it serves the next request that finds no gap. A handle stays mapped at
// the place it leaves, so that its stream has it again there without a word to the driver.
//
//	stream 0   | a a a a | · · · · | h · · · |          h is lent: no byte of the place is free
//	stream 1   | b b b b | h                            and mapped here as well
//
// Only streams lend that last as long as the program, for a fence names them.

// SetPersistent says that a stream is never destroyed, before its first request or later.
func (e *Engine) SetPersistent(id mem.StreamID) {
	e.persistent[id] = true
	if h := e.heapOfKey[heapKey{stream: id}]; h != 0 {
		e.heaps[h].persistent = true
	}
}

// lends reports whether an arena may lend handles to the one of the request.
func (e *Engine) lends(s uint32) bool {
	h := &e.heaps[heapAt(s)]
	return s != e.act.arena && isLarge(s) && h.persistent && h.pool == 0 &&
		e.idx.Room(s).Free >= pageUnits && !e.tooFragmented(s)
}

// lend makes other streams lend the shortfall of the request, and as much more as its stream has
// needed before, so that waits are few. It returns false if they have too little for one.
func (e *Engine) lend(lack unit, out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if !a.prefers(engine.MeansBorrow) || !isLarge(a.arena) {
		return out, false
	}
	var free unit
	for s := range e.allArenas() {
		if e.lends(s) {
			free += e.freeHandles(s)
		}
	}
	if free < e.leastLent(lack) {
		return out, false
	}
	e.epoch++
	for x := range e.views {
		if v := &e.views[x]; v.arena == a.arena && v.isFormer() {
			e.handles[v.handles[0]].epoch = e.epoch
		}
	}
	want := max(lack, e.idx.Room(a.arena).Peak-e.arenas[a.arena].held)
	for _, known := range []bool{true, false} {
		for s := range e.allArenas() {
			if want > 0 && e.lends(s) {
				want, out = e.lendFrom(s, want, func(h uint32) bool {
					return (e.handles[h].epoch == e.epoch) == known
				}, out)
			}
		}
	}
	return e.refuse(engine.RefusedPending, out), true
}

// lendFrom has an arena lend so much of what may be: the highest handles, which its blocks need
// last. It returns what is still wanted.
func (e *Engine) lendFrom(
	s uint32, want unit, may func(h uint32) bool, out []engine.Op,
) (unit, []engine.Op) {
	e.picks = e.picks[:0]
	for h := range e.whole(s) {
		if may(h) {
			e.picks = append(e.picks, h)
		}
	}
	slices.SortFunc(e.picks,
		func(a, b uint32) int { return cmp.Compare(e.handles[b].at, e.handles[a].at) })
	n := 0
	for ; n < len(e.picks) && want > 0; n++ {
		want -= e.handles[e.picks[n]].size
	}
	e.picks = e.picks[:n]
	if len(e.picks) == 0 {
		return want, out
	}
	fence := e.newFence(waiter{lent: slices.Clone(e.picks)})
	e.leave()
	return want, append(out, engine.Op{Kind: engine.OpFence, Stream: e.heaps[heapAt(s)].stream,
		Fence: driver.Fence(fence)})
}

// leastLent is the least that is worth a wait.
func (e *Engine) leastLent(lack unit) unit {
	return min(lack, max(e.held/unit(e.cfg.HandlePart), 1))
}

// isFormer reports whether a view is the place of a handle that was lent.
func (v *view) isFormer() bool { return v.inArena && !v.unmapFailed }

// leave takes the picks from their arena. They stay mapped there, each in a view of its own.
func (e *Engine) leave() {
	for _, h := range e.picks {
		x := &e.handles[h]
		e.idx.Take(x.arena, x.at, x.at+x.size)
		e.setPlace(0, x.at, x.size)
		e.arenas[x.arena].held -= x.size
		v := e.newView(view{arena: x.arena, at: x.at, inArena: true, size: x.size})
		e.views[v].handles = append(e.views[v].handles, h)
		x.aliases++
		x.arena, x.at = 0, 0
		e.lentPending += x.size
		e.stats.Lent++
	}
}

// lendDone says that the work which may have used lent handles is done.
func (e *Engine) lendDone(fence uint64) {
	handles := e.fenceOf[fence].lent
	delete(e.fenceOf, fence)
	e.lentPending -= e.units(handles)
	e.unmapped = append(e.unmapped, handles...)
}

// takeBack gives the request's arena the handles that are nobody's and have a place there.
func (e *Engine) takeBack() bool {
	back := false
	for x := 1; x < len(e.views) && len(e.unmapped) > 0; x++ {
		v := &e.views[x]
		if v.arena != e.act.arena || !v.isFormer() {
			continue
		}
		i := slices.Index(e.unmapped, v.handles[0])
		if i < 0 {
			continue
		}
		e.unmapped = slices.Delete(e.unmapped, i, i+1)
		h := &e.handles[v.handles[0]]
		h.arena, h.at = v.arena, v.at
		h.aliases--
		e.setPlace(v.handles[0], h.at, h.size)
		e.arenas[h.arena].hold(h.size)
		e.idx.Give(h.arena, h.at, h.at+h.size)
		*v = view{handles: v.handles[:0]}
		e.spareViews = append(e.spareViews, uint32(x))
		back = true
	}
	return back
}

// lendOut has streams lend to nobody: what they have lent rests once its fence has passed. It keeps
// the place it left, and the views that map it, so that rise gives it back without the driver.
func (e *Engine) lendOut(ev engine.Event, out []engine.Op) []engine.Op {
	want := unitsOf(ev.Asked)
	for _, h := range e.unmapped {
		if want > 0 {
			want -= e.handles[h].size
			e.handles[h].rests = true
			e.resting = append(e.resting, h)
			out = append(out, engine.Op{Kind: engine.OpRest, Handle: engine.Index(h)})
		}
	}
	e.unmapped = slices.DeleteFunc(e.unmapped, func(h uint32) bool { return e.handles[h].rests })
	want -= e.lentPending
	for _, likely := range []unit{unitsOf(ev.Size), 0} {
		for s := range e.allArenas() {
			if want > 0 && e.lends(s) {
				want, out = e.lendFrom(s, want, func(h uint32) bool {
					return likely == 0 || e.handles[h].size == likely
				}, out)
			}
		}
	}
	return out
}

// rise takes a handle back that rests: it serves the next request that finds no gap.
func (e *Engine) rise(ev engine.Event, out []engine.Op) []engine.Op {
	i := slices.Index(e.resting, uint32(ev.Handle))
	if i < 0 {
		return append(out, engine.Op{Kind: engine.OpUnknown})
	}
	e.handles[ev.Handle].rests = false
	e.resting = slices.Delete(e.resting, i, i+1)
	e.unmapped = append(e.unmapped, uint32(ev.Handle))
	return out
}

// Lending returns what is lent and still in use by its streams' work.
func (e *Engine) Lending() mem.Bytes { return bytesOf(e.lentPending) }
