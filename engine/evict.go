package engine

// Views are a cache of mappings: one that is idle costs no memory, but every
// change of its handles has to be repeated in its runs. Beyond a bound the least
// recently used idle ones are unmapped, down to evictTo of the bound, after a
// wait for the streams that may still read through them.
const evictTo = 0.75

func (e *Engine) mapBound() int {
	return e.cfg.MaxAliases*e.stats.Handles + e.cfg.aliasFloor
}

// overMapped reports whether mapping so many more pages breaks the bound.
func (e *Engine) overMapped(pages int) bool {
	return e.stats.Mapped+pages > e.mapBound()
}

// evictable reports whether a view may be unmapped.
func (e *Engine) evictable(x uint32) bool {
	v := &e.views[x]
	return v.heap != 0 && v.blocks == 0 && v.n > 0 && !e.keeps(v.heap)
}

// evictWait waits for the streams whose views will go; false if none can.
func (e *Engine) evictWait(out []Op) ([]Op, bool) {
	start := len(out)
	for x := 1; x < len(e.views); x++ {
		if e.evictable(uint32(x)) {
			if s := e.heaps[e.views[x].heap].stream; !syncs(out[start:], s) {
				out = e.sync(s, out)
			}
		}
	}
	if len(out) == start {
		return out, false
	}
	e.act.phase = phaseEvictWait
	return e.wait(out), true
}

// unmapIdle unmaps idle views, least recently used first.
func (e *Engine) unmapIdle(out []Op) []Op {
	e.undo = e.undo[:0]
	start := len(out)
	goal := int(evictTo * float64(e.mapBound()))
	for e.stats.Mapped > goal {
		oldest := uint32(0)
		for x := 1; x < len(e.views); x++ {
			if e.evictable(uint32(x)) && e.waited(e.views[x].heap) && (oldest == 0 || e.views[x].used < e.views[oldest].used) {
				oldest = uint32(x)
			}
		}
		if oldest == 0 {
			break
		}
		v := e.views[oldest]
		out = e.unmapRange(v.base, v.base+v.n, start, out)
		e.stats.Evicted++
	}
	return out
}

// unmapRange unmaps the mapped pages of [from, to), one op for each stretch.
func (e *Engine) unmapRange(from, to uint32, start int, out []Op) []Op {
	for p := from; p < to; p++ {
		if e.pages[p].handle == 0 {
			continue
		}
		first := p
		for ; p < to && e.pages[p].handle != 0; p++ {
			e.undo = append(e.undo, unmapped{page: p, handle: e.pages[p].handle, op: len(out) - start})
			e.unmapPage(p)
			e.stats.Unmaps++
		}
		out = append(out, Op{
			Kind: OpUnmap, Addr: e.addr(unit(first) << pageShift), Size: bytesOf(unit(p-first) << pageShift),
		})
	}
	return out
}

// remap restores the pages whose unmapping, from op at on, did not happen.
func (e *Engine) remap(at int) {
	for i := len(e.undo) - 1; i >= 0 && e.undo[i].op >= at; i-- {
		p, c := e.undo[i].page, e.undo[i].handle
		v := &e.views[e.pages[p].view]
		v.n = max(v.n, p-v.base+1)
		e.pages[p].handle = c
		switch {
		case v.heap != e.handles[c].heap: // asleep
		case e.handles[c].used != 0:
			e.showFree(p)
		default:
			v.free++
			e.runGive(e.pages[p].view, unit(p)<<pageShift, unit(p+1)<<pageShift)
		}
		e.link(p)
		e.stats.Mapped++
		e.stats.Unmaps--
	}
	e.undo = e.undo[:0]
}

// closeEmpty drops the views that the last batch of unmaps left without a page.
func (e *Engine) closeEmpty() {
	for _, u := range e.undo {
		x := e.pages[u.page].view
		if v := e.views[x]; v.heap != 0 && v.n == 0 && v.base <= u.page && u.page < v.base+1<<v.class {
			e.closeView(x)
			if !v.lost {
				e.extents.put(v.base, v.class)
			}
		}
	}
	e.undo = e.undo[:0]
}

// boundary ends a step. It is the cheapest moment to evict.
func (e *Engine) boundary(out []Op) []Op {
	anew := e.economize()
	anew = e.passFirst() || anew
	e.hints.boundary()
	if anew {
		return e.trim(Event{Kind: EvTrim}, out)
	}
	if e.stats.Mapped > e.mapBound() {
		out, _ = e.evictWait(out)
	}
	return out
}

// trim returns wholly free handles to the driver: of all streams' default pools,
// or of the one private pool that is named, which is over with that: what is freed in
// it later is anybody's.
func (e *Engine) trim(ev Event, out []Op) []Op {
	e.act.pool = ev.Pool
	start := len(out)
	for x := 1; x < len(e.heaps); x++ {
		h := &e.heaps[x]
		h.over = h.over || h.pool != 0 && h.pool == ev.Pool
		if e.trimmed(uint32(x)) && h.freeCount > 0 && !syncs(out[start:], h.stream) {
			out = e.sync(h.stream, out)
		}
	}
	if len(out) == start {
		return out
	}
	e.act.phase = phaseTrimWait
	return e.wait(out)
}

// unmapFree unmaps every page of the handles that trim releases.
func (e *Engine) unmapFree(out []Op) []Op {
	e.undo = e.undo[:0]
	start := len(out)
	for x := 1; x < len(e.views); x++ {
		v := e.views[x]
		if v.heap == 0 {
			continue
		}
		for p := v.base; p < v.base+v.n; {
			q := p
			for q < v.base+v.n && e.trims(e.pages[q].handle) {
				q++
			}
			out = e.unmapRange(p, q, start, out)
			p = max(q, p+1)
		}
	}
	return out
}

// trimmed reports whether the trim is about heap x.
func (e *Engine) trimmed(x uint32) bool {
	return e.heaps[x].pool == e.act.pool || e.act.pool == 0 && !e.keeps(x)
}

// trims reports whether trim releases handle x.
func (e *Engine) trims(x uint32) bool {
	if x == 0 || e.handles[x].used != 0 {
		return false
	}
	h := e.handles[x].heap
	return e.trimmed(h) && e.waited(h)
}

// releaseFree releases the handles that unmapFree left without a mapping.
func (e *Engine) releaseFree(out []Op) []Op {
	e.gone = e.gone[:0]
	for x := 1; x < len(e.handles); x++ {
		if c := &e.handles[x]; c.heap != 0 && c.alias == 0 && e.trims(uint32(x)) {
			out = append(out, Op{Kind: OpRelease, Handle: Index(x)})
			e.gone = append(e.gone, released{uint32(x), c.heap})
			e.dropHandle(uint32(x))
			e.stats.Releases++
		}
	}
	return out
}

// released remembers a handle that the batch returns to the driver.
type released struct{ handle, heap uint32 }

// unrelease restores the handles whose release, from op at on, did not happen.
func (e *Engine) unrelease(at int) {
	for i := len(e.gone) - 1; i >= at; i-- {
		e.spareHandles = e.spareHandles[:len(e.spareHandles)-1] // it was put there last
		e.reviveHandle(e.gone[i].handle, e.gone[i].heap)
		e.stats.Releases--
	}
}
