package onerange

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// A block's life: granted (live) → freed, and either gone at once or, if other
// streams have used it, pending until their fences have passed.
type blockState uint8

const (
	blockGone blockState = iota
	blockLive
	blockPending
)

type block struct {
	at, size   unit // at: in its space, or where its view begins
	space      uint32
	view       uint32 // 0: the block lies in its space
	users      uint32 // other streams that used it; the list's first user
	fences     int32  // pending: fences still to pass
	prev, next link
	state      blockState
	less       uint16 // bytes that were not asked for
	step       uint32 // steps that had ended when it was allocated
}

// addBlock hands out n units at a place: in its space, or through a view whose
// handles it occupies from the first on.
func (e *Engine) addBlock(s uint32, at, n unit, view uint32, asked mem.Bytes) {
	b := e.spareBlock
	if b != 0 {
		e.spareBlock = e.blocks[b].users
	} else {
		e.blocks = append(e.blocks, block{})
		b = uint32(len(e.blocks) - 1)
	}
	e.blocks[b] = block{at: at, size: n, space: s, view: view, state: blockLive, less: uint16(bytesOf(n) - asked), step: e.steps}
	e.blockAt.put(at, b)
	if view == 0 {
		e.take(s, at, at+n, b)
	} else {
		e.views[view].block = b
		e.parts(view, at, n, func(lo, hi unit) { e.take(s, lo, hi, 0) })
	}
	c := &e.spaces[s]
	c.load += n
	c.peak = max(c.peak, c.load)
	e.stats.Blocks++
	e.stats.Load += bytesOf(n)
	e.stats.PeakLoad = max(e.stats.PeakLoad, e.stats.Load)
	e.stats.PeakHeld = max(e.stats.PeakHeld, e.stats.Load+e.stats.Pending)
}

// dropBlock gives a block's bytes back to its space and forgets it. Its view stays.
func (e *Engine) dropBlock(b uint32) {
	c := &e.blocks[b]
	if c.view == 0 {
		e.giveBetween(c.space, c.at, c.at+c.size, c.prev, c.next)
	} else {
		e.parts(c.view, c.at, c.size, func(lo, hi unit) { e.give(c.space, lo, hi) })
		e.views[c.view].block = 0
		e.views[c.view].used = e.clock
	}
	e.spaces[c.space].load -= c.size
	e.blockAt.del(c.at)
	e.stats.Blocks--
	if c.state == blockLive {
		e.stats.Load -= bytesOf(c.size)
	} else {
		e.stats.Pending -= bytesOf(c.size)
	}
	*c = block{users: e.spareBlock}
	e.spareBlock = b
}

// blockOf returns the block that starts at an address, or zero.
func (e *Engine) blockOf(a mem.Addr) uint32 {
	at, ok := e.place(a)
	if !ok {
		return 0
	}
	return e.blockAt.get(at)
}

// Lookup returns the live or pending block that starts at addr.
func (e *Engine) Lookup(addr mem.Addr) (engine.Block, bool) {
	b := e.blockOf(addr)
	if b == 0 {
		return engine.Block{}, false
	}
	c := &e.blocks[b]
	h := &e.heaps[e.spaces[c.space].heap]
	return engine.Block{
		Addr: addr, Size: bytesOf(c.size), Asked: bytesOf(c.size) - mem.Bytes(c.less), Stream: h.stream, Pool: h.pool,
		Pending: c.state == blockPending,
	}, true
}

// Stats returns the counts as of the last event.
func (e *Engine) Stats() engine.Stats {
	s := e.stats
	s.Handles = int(e.held / pageUnits)
	for i := range e.spaces {
		s.FreeHandles += int(e.spaces[i].units / pageUnits)
	}
	s.Views = len(e.views) - 1 - len(e.spareViews)
	return s
}

// Gaps calls do with every gap of a stream's space, by address.
func (e *Engine) Gaps(stream mem.StreamID, small bool, do func(engine.Range)) {
	s := e.heaps[e.heapOf(stream, 0)].spaces[largeSpace]
	if small {
		s = e.heaps[e.heapOf(stream, 0)].spaces[smallSpace]
	}
	f := &e.spaces[s].free
	for g := atLeast(e.gaps, f.addrs, 0, byAddr); g != 0; g = atLeast(e.gaps, f.addrs, e.gaps[g].key[byAddr]+1, byAddr) {
		do(engine.Range{Addr: e.addr(e.gaps[g].start()), Size: bytesOf(e.gaps[g].size())})
	}
}

// LargestFree returns the size of the largest gap.
func (e *Engine) LargestFree() (n mem.Bytes) {
	for i := range e.gaps {
		if e.gaps[i].key[bySize] != 0 {
			n = max(n, bytesOf(e.gaps[i].size()))
		}
	}
	return n
}

// Within returns the live or pending block that contains addr. It looks at all of them.
func (e *Engine) Within(addr mem.Addr) (engine.Block, bool) {
	at := unit((addr - e.cfg.Base) / mem.Addr(mem.Grain))
	for i := range e.blocks {
		c := &e.blocks[i]
		if c.state != blockGone && addr >= e.cfg.Base && at >= c.at && at < c.at+c.size {
			return e.Lookup(e.addr(c.at))
		}
	}
	return engine.Block{}, false
}
