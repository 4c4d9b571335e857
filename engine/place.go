package engine

import "stalloc/internal/mem"

// alloc starts to serve a request.
func (e *Engine) alloc(ev Event, out []Op) []Op {
	e.act = action{asked: true, req: ev.Req, whole: ev.Whole, most: ev.Most, quick: ev.Quick, list: largeViews}
	a := &e.act
	if ev.Size < 0 || ev.Size > min(e.cfg.Window/2, mem.Bytes(maxHandles)*mem.HandleSize) {
		return e.refuse(RefusedSize, out)
	}
	size := mem.Round(ev.Size)
	if ev.Whole {
		a.list = arenaViews
		size = mem.RoundUp(size, mem.HandleSize)
		a.room = uint32(mem.Handles(min(ev.Room, e.cfg.Window/2)))
	} else if size <= e.cfg.SmallLimit {
		a.list = smallViews
	}
	a.n = unit(size / mem.Grain)
	if !ev.Whole {
		a.less = uint16(size - ev.Size)
	}
	a.heap = e.heapFor(ev.Stream, ev.Pool)
	if !ev.Whole && e.cfg.Sticky {
		a.hint = e.hints.of(a.heap, a.n)
	}
	if ev.Whole && ev.Addr != 0 {
		if !e.lengthen(ev.Addr) {
			return e.refuse(RefusedWindow, out)
		}
	}
	if ev.Whole {
		// An arena takes what lies idle anywhere before it asks for more.
		a.short = int(a.n>>pageShift) - e.heaps[a.heap].freeCount
		if got, ok := e.waitIdle(out); ok {
			return got
		}
	}
	return e.place(out)
}

// place makes one attempt to serve the request: the hint, an idle private view, a free
// run, and then, with driver calls, pages stitched to the end of a view or into a new one.
func (e *Engine) place(out []Op) []Op {
	a := &e.act
	if a.whole {
		if got, ok := e.reuseArena(out); ok {
			return got
		}
	}
	if !a.whole {
		a.apart = e.apart()
		if a.hint != 0 && a.rung == rungFirst {
			if v, at, ok := e.sticky(a.heap, a.hint, a.n); ok && !(a.apart && e.views[v].list != privateViews) {
				e.stats.Sticky++
				return e.grantFree(v, at, out)
			}
		}
		if x := e.idle(); x != 0 {
			e.stats.Fits++
			return e.grantFree(x, e.views[x].start(), out)
		}
		if r := e.heaps[a.heap].sizes[a.list].bestFit(e.runs, a.n); r != 0 && !(a.apart && e.weigh(0, 0, true).fresh == 0) {
			a.apart = false
			e.stats.Fits++
			return e.grantFree(e.runs[r].view, e.runs[r].start(), out)
		}
	}
	return e.stitch(out)
}

// grantFree grants mapped bytes. Its batch can fail only if it also undoes the
// one before.
func (e *Engine) grantFree(v uint32, at unit, out []Op) []Op {
	a := &e.act
	a.phase = phaseNone
	if a.undo > 0 {
		a.peaks = e.stats.peaks()
		a.phase, a.creates, a.maps, a.opened = phasePlace, 0, 0, false
	}
	return e.grant(v, at, out)
}

// grant makes the block and hands it out.
func (e *Engine) grant(v uint32, at unit, out []Op) []Op {
	a := &e.act
	b := e.addBlock(v, at, a.n)
	a.block = b
	c := &e.blocks[b]
	c.whole, c.quick, c.less = a.whole, a.quick, a.less
	if a.hint != 0 {
		e.hints.note(a.hint, at)
	}
	return append(out, Op{Kind: OpGrant, Req: a.req, Addr: e.addr(at), Size: bytesOf(a.n)})
}

// refuse answers the request with a reason.
func (e *Engine) refuse(why Reason, out []Op) []Op {
	e.stats.Refused++
	out = append(out, Op{Kind: OpRefuse, Req: e.act.req, Reason: why, Code: e.act.code})
	e.act.asked, e.act.phase, e.act.reason = false, phaseNone, why
	if e.act.undo > 0 {
		e.act.phase = phaseRefused
	}
	return out
}
