package onerange

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// donor reports whether handles of a space may serve the request at hand, in another one,
// once its stream has been waited for. Private pools keep what they have: a graph that will be
// replayed remembers their addresses.
func (e *Engine) donor(s uint32) bool {
	c := &e.spaces[s]
	return s != e.act.space && e.heaps[c.heap].anybodys() && c.units >= pageUnits
}

// anybodys reports whether memory of a heap may serve others.
func (h *heap) anybodys() bool { return h.pool == 0 || h.over }

// trimmedBy reports whether a trim of a pool means a heap.
func (h *heap) trimmedBy(pool uint64) bool { return h.pool == pool || pool == 0 && h.over }

// waitIdle waits for the streams of other spaces that have wholly free handles.
func (e *Engine) waitIdle(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if a.moved {
		return out, false
	}
	a.moved = true
	e.synced = e.synced[:0]
	for s := 1; s < len(e.spaces); s++ {
		if e.donor(uint32(s)) && e.freeHandles(uint32(s)) > 0 {
			out = e.sync(e.heaps[e.spaces[s].heap].stream, out)
		}
	}
	if len(e.synced) == 0 {
		return out, false
	}
	return e.await(phaseWait, out), true
}

// waitAll waits for every stream that a pending block waits for, and once more for
// those with idle handles: more of them may be free then.
func (e *Engine) waitAll(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	if a.waited || e.stats.Pending == 0 {
		return out, false
	}
	a.waited = true
	e.synced = e.synced[:0]
	for b := range e.blocks {
		if e.blocks[b].state != blockPending {
			continue
		}
		out = e.sync(e.heaps[e.spaces[e.blocks[b].space].heap].stream, out)
		for u := e.blocks[b].users; u != 0; u = e.users[u].next {
			out = e.sync(e.users[u].stream, out)
		}
	}
	return e.await(phaseWait, out), true
}

// sync appends a wait for a stream, once.
func (e *Engine) sync(s mem.StreamID, out []engine.Op) []engine.Op {
	if slices.Contains(e.synced, s) {
		return out
	}
	e.stats.Syncs++
	e.synced = append(e.synced, s)
	return append(out, engine.Op{Kind: engine.OpSync, Stream: s})
}

// waited goes on with a request whose streams have been waited for: it takes what
// lacks from the idle handles of other spaces.
func (e *Engine) waited(out []engine.Op) []engine.Op {
	a := &e.act
	a.torn = false
	e.picks = e.picks[:0]
	lack := a.n - e.freeHandles(a.space)
	for s := 1; s < len(e.spaces) && lack > 0; s++ {
		c := &e.spaces[s]
		if !e.donor(uint32(s)) || !slices.Contains(e.synced, e.heaps[c.heap].stream) {
			continue
		}
		for g := c.free.nextBySize(e.gaps, 0); g != 0 && lack > 0; g = c.free.nextBySize(e.gaps, g) {
			e.inGap(g, func(h uint32) bool {
				e.picks = append(e.picks, h)
				lack -= e.handles[h].size
				return lack > 0
			})
		}
	}
	if len(e.picks) == 0 {
		a.rung, a.grown = rungFit, false
		return e.climb(out)
	}
	return e.unhome(out)
}

// unhome unmaps the places of the picks, all of them free and their streams waited
// for. They are spares then.
func (e *Engine) unhome(out []engine.Op) []engine.Op {
	for _, h := range e.picks {
		c := &e.handles[h]
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr(c.at), Size: bytesOf(c.size)})
	}
	return e.await(phaseUnhome, out)
}

func (e *Engine) unhomed(done int) {
	for _, h := range e.picks[:done] {
		x := &e.handles[h]
		c := &e.spaces[x.space]
		if !e.act.trimming {
			e.stats.Adopted++
		}
		e.take(x.space, x.at, x.at+x.size, 0)
		e.setHome(0, x.at, x.size)
		c.held -= x.size
		e.addVoid(x.space, x.at, x.at+x.size)
		e.stats.Unmaps++
		e.stats.Mapped -= int(x.size / pageUnits)
		x.space, x.at = 0, 0
		e.spares = append(e.spares, h)
	}
}

// anew gives back all that is free, so that as much can be made again in the smallest
// handles, where the request's stream needs it. False: that would not be enough.
func (e *Engine) anew(out []engine.Op) ([]engine.Op, bool) {
	a := &e.act
	_, _, whole := e.ends(a.n)
	free := e.spareUnits()
	for s := 1; s < len(e.spaces); s++ {
		if e.heaps[e.spaces[s].heap].anybodys() {
			free += e.freeHandles(uint32(s))
		}
	}
	if a.renewed || free < whole {
		return out, false
	}
	a.renewed, a.trimming = true, true
	e.price.large, e.price.short = false, true
	return e.giveBack(out), true
}

// spareUnits returns what the spares have.
func (e *Engine) spareUnits() (n unit) {
	for _, h := range e.spares {
		n += e.handles[h].size
	}
	return n
}
