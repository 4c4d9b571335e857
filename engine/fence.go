package engine

import (
	"slices"

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

// record notes another stream of a block.
func (e *Engine) record(ev Event, out []Op) []Op {
	b := e.blockOf(ev.Addr)
	if b == 0 || e.blocks[b].state != blockLive {
		return append(out, Op{Kind: OpUnknown, Addr: ev.Addr})
	}
	c := &e.blocks[b]
	if e.heaps[e.views[c.view].heap].stream == ev.Stream {
		return out
	}
	for u := c.users; u != 0; u = e.users[u].next {
		if e.users[u].stream == ev.Stream {
			return out
		}
	}
	var u uint32
	if e.spare != 0 {
		u = e.spare
		e.spare = e.users[u].next
	} else {
		e.users = append(e.users, user{})
		u = uint32(len(e.users) - 1)
	}
	e.users[u] = user{stream: ev.Stream, next: c.users}
	c.users = u
	return out
}

// free gives a block back: at once, or after the fences of the other streams that
// used it.
func (e *Engine) free(ev Event, out []Op) []Op {
	b := e.blockOf(ev.Addr)
	if b == 0 || e.blocks[b].state != blockLive {
		return append(out, Op{Kind: OpUnknown, Addr: ev.Addr})
	}
	x := e.blocks[b].view
	if e.blocks[b].users != 0 {
		out = e.postpone(b, out)
	} else {
		e.dropBlock(b)
	}
	if e.views[x].list >= privateViews {
		out = e.soil(x, out)
	}
	return out
}

// soil notes that work on the stream may still use the addresses of a private
// view whose block has been freed, and asks for a fence behind it.
func (e *Engine) soil(x uint32, out []Op) []Op {
	v := &e.views[x]
	if v.fence != 0 {
		e.fenceAt.del(v.fence)
	}
	if e.act.phase == phaseNone {
		e.act = action{phase: phaseRecord, fence: e.fences + 1}
	}
	e.fences++
	v.fence, v.dirty = e.fences, true
	e.fenceAt.put(e.fences, viewFence|x)
	return append(out, Op{Kind: OpRecord, Addr: e.addr(v.start()), Stream: e.heaps[v.heap].stream, Fence: driver.Fence(e.fences)})
}

// postpone makes a freed block wait for the streams that used it.
func (e *Engine) postpone(b uint32, out []Op) []Op {
	c := &e.blocks[b]
	c.state = blockPending
	e.stats.Load -= bytesOf(c.size)
	e.stats.Pending += bytesOf(c.size)
	e.act = action{phase: phaseRecord, fence: e.fences + 1}
	for u := c.users; u != 0; u = e.users[u].next {
		e.fences++
		c.fences++
		e.users[u].fence = e.fences
		e.fenceAt.put(e.fences, b)
		out = append(out, Op{Kind: OpRecord, Stream: e.users[u].stream, Fence: driver.Fence(e.fences)})
	}
	return out
}

// fence completes one fence, and the free of its block if it was the last.
func (e *Engine) fence(ev Event, out []Op) []Op {
	b := e.fenceAt.get(uint64(ev.Fence))
	if b == 0 {
		return append(out, Op{Kind: OpUnknown, Fence: ev.Fence})
	}
	if b&viewFence != 0 {
		e.clean(b &^ viewFence)
		return out
	}
	e.pass(b, uint64(ev.Fence))
	return out
}

// clean notes that the work on a private view's addresses has passed.
func (e *Engine) clean(x uint32) {
	v := &e.views[x]
	if v.fence != 0 {
		e.fenceAt.del(v.fence)
	}
	v.fence, v.dirty = 0, false
}

func (e *Engine) pass(b uint32, fence uint64) {
	e.fenceAt.del(fence)
	c := &e.blocks[b]
	c.fences--
	if c.fences > 0 {
		for u := c.users; u != 0; u = e.users[u].next {
			if e.users[u].fence == fence {
				e.users[u].fence = 0
			}
		}
		return
	}
	for u := c.users; u != 0; {
		next := e.users[u].next
		e.users[u] = user{next: e.spare}
		e.spare = u
		u = next
	}
	c.users = 0
	e.dropBlock(b)
}

// passSynced completes every fence on the streams that the last batch waited for.
func (e *Engine) passSynced() {
	for x := 1; x < len(e.views); x++ {
		if v := &e.views[x]; v.dirty && e.waited(v.heap) {
			e.clean(uint32(x))
		}
	}
	for b := 1; b < len(e.blocks) && e.stats.Pending > 0; b++ {
		if e.blocks[b].state != blockPending {
			continue
		}
		for u := e.blocks[b].users; u != 0; {
			c := e.users[u]
			if c.fence != 0 && slices.Contains(e.synced, c.stream) {
				e.pass(uint32(b), c.fence)
				if e.blocks[b].state != blockPending {
					break // that was the last one: the list is gone
				}
			}
			u = c.next
		}
	}
}
