package onerange

import (
	"cmp"
	"slices"

	"stalloc/engine"
	"stalloc/internal/driver"
)

// One stream's memory serves another: before memory is made for a stream, others lend theirs, in
// wholly free handles. A lent handle serves no request until its stream has done the work queued so
// far (a fence); then it serves the next request that finds no gap. The handle stays mapped at the
// place it leaves, so its stream can have it back there without a driver call.
//
//	stream 0   | a a a a | · · · · | h · · · |          h is lent: no byte of the place is free
//	stream 1   | b b b b | h                            and mapped here as well
//
// Only streams that last as long as the program lend, because a fence names its stream.

// lends reports whether an arena may lend handles to the one of the request.
func (e *Engine) lends(s uint32) bool {
	h := &e.heaps[heapAt(s)]
	return s != e.act.arena && isLarge(s) && h.persistent && h.pool == 0 &&
		e.idx.Room(s).Free >= pageUnits && !e.tooFragmented(s)
}

// lend makes other streams lend the shortfall of the request, and as much more as its stream has
// needed before, so that waits are few. It returns false if they have too little to be worth a
// wait.
func (e *Engine) lend(missing unit, out []engine.Op) ([]engine.Op, bool) {
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
	if free < e.leastLent(missing) {
		return out, false
	}
	e.epoch++
	for x := range e.views {
		if v := &e.views[x]; v.arena == a.arena && v.isFormer() {
			e.handles[v.handles[0]].epoch = e.epoch
		}
	}
	want := max(missing, e.idx.Room(a.arena).Peak-e.arenas[a.arena].held)
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

// lendFrom makes an arena lend handles for which may is true, up to want: the highest ones, which
// its blocks need last. It returns how much is still wanted.
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
	want = e.cutPicks(want)
	if len(e.picks) == 0 {
		return want, out
	}
	fence := e.newFence(waiter{lent: slices.Clone(e.picks)})
	e.leave()
	return want, append(out, engine.Op{Kind: engine.OpFence, Stream: e.heaps[heapAt(s)].stream,
		Fence: driver.Fence(fence)})
}

func (e *Engine) leastLent(missing unit) unit {
	return min(missing, max(e.held/unit(e.cfg.HandlePart), 1))
}

// isFormer reports whether a view is the place that a lent handle has left.
func (v *view) isFormer() bool { return v.inArena && !v.unmapFailed }

// rests reports whether the handle rests that a view is the place of.
func (e *Engine) rests(v *view) bool { return v.isFormer() && e.handles[v.handles[0]].rests }

// leave takes the picked handles from their arena. They stay mapped there, each in its own view.
func (e *Engine) leave() {
	for _, h := range e.picks {
		x := &e.handles[h]
		e.idx.Take(x.arena, x.at, x.at+x.size)
		e.setPlace(0, x.at, x.size)
		e.arenas[x.arena].held -= x.size
		e.newView(view{arena: x.arena, extent: extent{at: x.at}, inArena: true, size: x.size}, h)
		x.arena, x.at = 0, 0
		e.lentPending += x.size
		e.stats.Lent++
	}
}

// takeBack gives the request's arena the unmapped handles that have a place there.
func (e *Engine) takeBack() bool {
	back := false
	for x := 1; x < len(e.views) && len(e.unmapped) > 0; x++ {
		if e.views[x].arena == e.act.arena {
			back = e.restore(uint32(x)) || back
		}
	}
	return back
}

// restore gives an arena an unmapped handle back, if the view is the place that it has left there.
func (e *Engine) restore(x uint32) bool {
	v := &e.views[x]
	if v.arena == 0 || !v.isFormer() {
		return false
	}
	i := slices.Index(e.unmapped, v.handles[0])
	if i < 0 {
		return false
	}
	e.unmapped = slices.Delete(e.unmapped, i, i+1)
	h := &e.handles[v.handles[0]]
	h.arena, h.at = v.arena, v.at
	h.aliases--
	e.setPlace(v.handles[0], h.at, h.size)
	e.arenas[h.arena].hold(h.size)
	e.idx.Give(h.arena, h.at, h.at+h.size)
	*v = view{handles: v.handles[:0]}
	e.spareViews = append(e.spareViews, x)
	return true
}

// lendOut makes streams lend handles to the device: each rests once its fence has passed. It keeps
// the place it left and the views that map it, so rise gives it back without a driver call. A plan
// packs blocks from the low end, so the highest places are needed at the peak alone, when regions
// have left: then what rests is in no planned block's way. Memory of the size that is missing goes
// there and back without being released.
func (e *Engine) lendOut(ev engine.Event, out []engine.Op) []engine.Op {
	want := unitsOf(ev.Asked)
	for _, h := range e.unmapped {
		if want > 0 {
			want -= e.handles[h].size
			e.handles[h].rests = true
			out = append(out, engine.Op{Kind: engine.OpRest, Handle: engine.Index(h)})
		}
	}
	e.unmapped = slices.DeleteFunc(e.unmapped, func(h uint32) bool { return e.handles[h].rests })
	want -= e.lentPending
	same := func(h uint32) bool { return e.handles[h].size == unitsOf(ev.Unit) }
	for s := range e.allArenas() {
		if want > 0 && e.lends(s) {
			may := same
			if e.freeOf(s, same) < want {
				may = every
			}
			want, out = e.lendFrom(s, want, may, out)
		}
	}
	return out
}

// rise takes a resting handle back, to the place it left: plans rely on that (Gaps).
func (e *Engine) rise(ev engine.Event, out []engine.Op) []engine.Op {
	if int(ev.Handle) >= len(e.handles) || !e.handles[ev.Handle].rests {
		return append(out, engine.Op{Kind: engine.OpUnknown})
	}
	e.handles[ev.Handle].rests = false
	e.unmapped = append(e.unmapped, uint32(ev.Handle))
	for x := range e.views {
		if v := &e.views[x]; v.arena != 0 && v.isFormer() && v.handles[0] == uint32(ev.Handle) {
			e.restore(uint32(x))
			break
		}
	}
	return out
}
