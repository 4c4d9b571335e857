package gmlake

import (
	"slices"

	"stalloc/engine"
)

// record notes another stream of a block.
func (p *Pool) record(ev engine.Event, out []engine.Op) []engine.Op {
	b, ok := p.at[ev.Addr]
	if !ok || p.blocks[b].state != live {
		return append(out, engine.Op{Kind: engine.OpUnknown, Addr: ev.Addr})
	}
	c := &p.blocks[b]
	known := slices.ContainsFunc(c.users, func(u user) bool { return u.stream == ev.Stream })
	if !known && p.heaps[c.heap].stream != ev.Stream {
		c.users = append(c.users, user{stream: ev.Stream})
	}
	return out
}

// free gives a block back: at once, or after the fences of the other streams that
// used it.
func (p *Pool) free(ev engine.Event, out []engine.Op) []engine.Op {
	b, ok := p.at[ev.Addr]
	if !ok || p.blocks[b].state != live {
		return append(out, engine.Op{Kind: engine.OpUnknown, Addr: ev.Addr})
	}
	c := &p.blocks[b]
	if len(c.users) == 0 {
		p.discharge(b)
		p.reclaim(b)
		return out
	}
	c.state = pending
	p.stats.Load -= c.asked
	p.stats.Pending += c.asked
	p.waiting = append(p.waiting, b)
	for i := range c.users {
		p.lastFence++
		c.users[i].fence = p.lastFence
		p.fences[p.lastFence] = b
		out = append(out, engine.Op{Kind: engine.OpFence, Stream: c.users[i].stream,
			Fence: p.lastFence})
	}
	return out
}

// fence completes one fence, and the free of its block if it was the last.
func (p *Pool) fence(ev engine.Event, out []engine.Op) []engine.Op {
	b, ok := p.fences[ev.Fence]
	if !ok {
		return append(out, engine.Op{Kind: engine.OpUnknown, Fence: ev.Fence})
	}
	p.pass(b, func(u user) bool { return u.fence == ev.Fence })
	if len(p.blocks[b].users) == 0 {
		i := slices.Index(p.waiting, b)
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.discharge(b)
		p.reclaim(b)
	}
	return out
}

// pass drops the users of a block whose work has passed.
func (p *Pool) pass(b int32, passed func(user) bool) {
	c := &p.blocks[b]
	c.users = slices.DeleteFunc(c.users, func(u user) bool {
		if !passed(u) {
			return false
		}
		delete(p.fences, u.fence)
		return true
	})
}

// passAll completes every fence: the device has been waited for.
func (p *Pool) passAll() {
	for _, b := range p.waiting {
		p.pass(b, func(user) bool { return true })
		p.discharge(b)
		p.reclaim(b)
	}
	p.waiting = p.waiting[:0]
}

// reclaim caches a held block that nothing uses any more.
func (p *Pool) reclaim(b int32) {
	switch p.blocks[b].kind {
	case stitched:
		p.retire(b)
	case large:
		p.shift(b, 1)
		p.coalesce(b)
	default:
		p.coalesce(b)
	}
}
