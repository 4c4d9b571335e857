package onerange

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// A user is one other stream that has used a block: first to be recorded when the
// block is freed, then a fence to wait for.
type user struct {
	stream mem.StreamID
	fence  uint64 // zero: not recorded yet, or passed
	next   uint32
}

// viewFence marks a value of fenceAt as a view.
const viewFence = 1 << 31

// record notes another stream of a block.
func (e *Engine) record(ev engine.Event, out []engine.Op) []engine.Op {
	b := e.blockOf(ev.Addr)
	if b == 0 || e.blocks[b].state != blockLive {
		return append(out, engine.Op{Kind: engine.OpUnknown, Addr: ev.Addr})
	}
	c := &e.blocks[b]
	if e.heaps[e.spaces[c.space].heap].stream == ev.Stream {
		return out
	}
	for u := c.users; u != 0; u = e.users[u].next {
		if e.users[u].stream == ev.Stream {
			return out
		}
	}
	u := e.spareUser
	if u != 0 {
		e.spareUser = e.users[u].next
	} else {
		e.users = append(e.users, user{})
		u = uint32(len(e.users) - 1)
	}
	e.users[u] = user{stream: ev.Stream, next: c.users}
	c.users = u
	return out
}

// free gives a block back: at once, or after the fences of the other streams that
// used it. A fence behind its view tells when the addresses may be mapped anew.
func (e *Engine) free(ev engine.Event, out []engine.Op) []engine.Op {
	b := e.blockOf(ev.Addr)
	if b == 0 || e.blocks[b].state != blockLive {
		return append(out, engine.Op{Kind: engine.OpUnknown, Addr: ev.Addr})
	}
	c := &e.blocks[b]
	view := c.view
	if c.users == 0 {
		e.dropBlock(b)
	} else {
		c.state = blockPending
		e.stats.Load -= bytesOf(c.size)
		e.stats.Pending += bytesOf(c.size)
		for u := c.users; u != 0; u = e.users[u].next {
			c.fences++
			e.users[u].fence = e.newFence(b)
			out = append(out, engine.Op{Kind: engine.OpRecord, Stream: e.users[u].stream, Fence: driver.Fence(e.users[u].fence)})
			e.act.phase = phaseRecord
		}
	}
	if view != 0 {
		v := &e.views[view]
		e.clean(view)
		v.dirty, v.fence = true, e.newFence(view|viewFence)
		e.act.phase = phaseRecord
		out = append(out, engine.Op{Kind: engine.OpRecord, Addr: e.addr(v.at), Stream: e.heaps[e.spaces[v.space].heap].stream, Fence: driver.Fence(v.fence)})
	}
	return out
}

func (e *Engine) newFence(of uint32) uint64 {
	e.fences++
	e.fenceAt.put(e.fences, of)
	return e.fences
}

// waitUnrecorded replaces the fences that could not be recorded, from number at of
// the batch on, by waiting for their streams. A block for which that fails too stays
// pending until a later wait: nothing proves that it is idle.
func (e *Engine) waitUnrecorded(at int, out []engine.Op) []engine.Op {
	first := e.fences - uint64(e.act.ops) + 1 + uint64(at)
	e.synced = e.synced[:0]
	for f := first; f <= e.fences; f++ {
		b := e.fenceAt.get(f)
		e.fenceAt.del(f)
		if b&viewFence != 0 {
			v := &e.views[b&^viewFence]
			v.fence = 0
			out = e.sync(e.heaps[e.spaces[v.space].heap].stream, out)
			continue
		}
		for u := e.blocks[b].users; u != 0; u = e.users[u].next {
			if e.users[u].fence == f {
				e.users[u].fence = unrecorded
				out = e.sync(e.users[u].stream, out)
			}
		}
	}
	return e.await(phaseRecordWait, out)
}

// unrecorded stands for a fence that the driver did not take: only a wait for the
// stream passes it.
const unrecorded = 1<<64 - 1

// fence completes one fence, and the free of its block if it was the last.
func (e *Engine) fence(ev engine.Event, out []engine.Op) []engine.Op {
	b := e.fenceAt.get(uint64(ev.Fence))
	if b == 0 {
		return append(out, engine.Op{Kind: engine.OpUnknown, Fence: ev.Fence})
	}
	if b&viewFence != 0 {
		e.clean(b &^ viewFence)
		return out
	}
	for u := e.blocks[b].users; u != 0; u = e.users[u].next {
		if e.users[u].fence == uint64(ev.Fence) {
			e.pass(b, u)
			break
		}
	}
	return out
}

// pass completes the fence of one user of a pending block.
func (e *Engine) pass(b, u uint32) {
	if f := e.users[u].fence; f != unrecorded {
		e.fenceAt.del(f)
	}
	e.users[u].fence = 0
	c := &e.blocks[b]
	if c.fences--; c.fences > 0 {
		return
	}
	for u := c.users; u != 0; {
		next := e.users[u].next
		e.users[u] = user{next: e.spareUser}
		e.spareUser, u = u, next
	}
	c.users = 0
	e.dropBlock(b)
}

// passSynced completes every fence on the streams that have been waited for.
func (e *Engine) passSynced() {
	for x := 1; x < len(e.views); x++ {
		if v := &e.views[x]; v.space != 0 && v.block == 0 && v.dirty && slices.Contains(e.synced, e.heaps[e.spaces[v.space].heap].stream) {
			e.clean(uint32(x))
		}
	}
	for b := 1; b < len(e.blocks) && e.stats.Pending > 0; b++ {
		for u := e.blocks[b].users; u != 0 && e.blocks[b].state == blockPending; {
			c := e.users[u]
			if c.fence != 0 && slices.Contains(e.synced, c.stream) {
				e.pass(uint32(b), u)
			}
			u = c.next
		}
	}
}
