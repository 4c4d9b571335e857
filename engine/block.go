package engine

import "stalloc/internal/mem"

// A block's life: granted (live) → freed, and either gone at once or, if other
// streams have used it, pending until their fences have passed.
type blockState uint8

const (
	blockGone blockState = iota
	blockLive
	blockPending
)

type block struct {
	at, size unit
	view     uint32
	users    uint32 // other streams that used it; the list's first user
	fences   int32  // pending: fences still to pass
	state    blockState
	whole    bool
	quick    bool   // the quick case handed it out, and may take it back
	less     uint16 // bytes that were not asked for
}

// Block is what Lookup tells about a block.
type Block struct {
	Addr    mem.Addr
	Size    mem.Bytes // rounded up to mem.Grain, whole handles for an arena
	Asked   mem.Bytes // what was asked for; of an arena, Size
	Stream  mem.StreamID
	Pool    uint64
	Whole   bool // an arena
	Pending bool // freed, but other streams may still use it
}

// addBlock occupies [at, at+n) of a view for a new live block.
func (e *Engine) addBlock(x uint32, at, n unit) uint32 {
	var b uint32
	if e.spareBlock != 0 {
		b = e.spareBlock
		e.spareBlock = e.blocks[b].users
	} else {
		e.blocks = append(e.blocks, block{})
		b = uint32(len(e.blocks) - 1)
	}
	e.blocks[b] = block{at: at, size: n, view: x, state: blockLive}
	e.blockAt.put(uint64(at)+1, b)
	e.take(x, at, at+n)
	v := &e.views[x]
	v.blocks++
	v.used = e.clock
	e.stats.Blocks++
	e.addLoad(n)
	return b
}

func (e *Engine) addLoad(n unit) {
	e.stats.Load += bytesOf(n)
	e.stats.PeakLoad = max(e.stats.PeakLoad, e.stats.Load)
	e.stats.PeakHeld = max(e.stats.PeakHeld, e.stats.Load+e.stats.Pending)
}

// dropBlock gives a block's bytes back and forgets it.
func (e *Engine) dropBlock(b uint32) {
	c := &e.blocks[b]
	e.give(c.view, c.at, c.at+c.size)
	v := &e.views[c.view]
	v.blocks--
	v.used = e.clock
	e.blockAt.del(uint64(c.at) + 1)
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
	if a < e.cfg.Base || (a-e.cfg.Base)%mem.Addr(mem.Grain) != 0 {
		return 0
	}
	return e.blockAt.get(uint64(a-e.cfg.Base)/uint64(mem.Grain) + 1)
}

// Lookup returns the live or pending block that starts at addr.
func (e *Engine) Lookup(addr mem.Addr) (Block, bool) {
	b := e.blockOf(addr)
	if b == 0 {
		return Block{}, false
	}
	c := &e.blocks[b]
	h := &e.heaps[e.views[c.view].heap]
	return Block{
		Addr: addr, Size: bytesOf(c.size), Asked: bytesOf(c.size) - mem.Bytes(c.less), Stream: h.stream, Pool: h.pool,
		Whole: c.whole, Pending: c.state == blockPending,
	}, true
}

// Within returns the live or pending block that contains addr. It looks at all of them.
func (e *Engine) Within(addr mem.Addr) (Block, bool) {
	at := unit((addr - e.cfg.Base) / mem.Addr(mem.Grain))
	for i := range e.blocks {
		c := &e.blocks[i]
		if c.state != blockGone && addr >= e.cfg.Base && at-c.at < c.size {
			return e.Lookup(e.addr(c.at))
		}
	}
	return Block{}, false
}

func bytesOf(n unit) mem.Bytes { return mem.Bytes(n) * mem.Grain }
