package baseline

import "stalloc/internal/mem"

// Native simulates PyTorch's caching allocator over cudaMalloc, its default.
type Native struct{ core }

// NewNative makes the simulator. The options must be valid; New checks them.
func NewNative(o Options) *Native {
	n := new(Native)
	n.init("native", o, n)
	return n
}

// search is get_free_block: the smallest free block of the stream that is large
// enough, the lowest address among equals. Two refusals end it without a second
// try: a block too large to be split is not cut for a small request, and is not
// wasted on a much smaller one.
func (c *core) search(rq request) int32 {
	ps := &c.pools[rq.pool]
	ps.searches++
	fs := &ps.free[rq.stream]
	cur, ok := fs.ceil(entry{size: rq.n})
	if !ok {
		return none
	}
	return c.takeFree(fs, cur, rq)
}

// takeFree takes the entry out of its set unless MaxSplit refuses it.
func (c *core) takeFree(fs *set, cur cursor, rq request) int32 {
	e := fs.at(cur)
	if rq.n < c.opt.MaxSplit && e.size >= c.opt.MaxSplit ||
		rq.n >= c.opt.MaxSplit && e.size >= rq.n+c.opt.NonSplitRounding {
		return none
	}
	fs.removeAt(cur)
	return e.block
}

// fits says whether the driver would give n more bytes.
func (c *core) fits(n mem.Bytes) bool { return c.stats.Reserved+n <= c.opt.Capacity }

// withinLimit is the memory-fraction test, made before any driver call.
func (c *core) withinLimit(n mem.Bytes) bool {
	return c.opt.Limit == 0 || c.stats.Reserved+n <= c.opt.Limit
}

// grow is alloc_block: one cudaMalloc.
func (c *core) grow(rq request) int32 {
	if !c.withinLimit(rq.segment) {
		return none
	}
	c.calls.add(MemAlloc, rq.segment, 1)
	if !c.fits(rq.segment) {
		return none
	}
	i := c.newBlock()
	b := &c.blocks[i]
	b.addr, b.size, b.space = c.segmentAddr(rq), rq.segment, RT
	b.pool, b.stream = rq.pool, rq.stream
	c.stats.Segments++
	c.stats.grew(rq.segment)
	c.held(RT, b.addr, rq.segment, true)
	return i
}

// segmentAddr makes up the address cudaMalloc returns.
func (c *core) segmentAddr(rq request) mem.Offset {
	if rq.pool == largePool && !c.opt.Ascending {
		c.rtTop -= mem.Offset(rq.segment)
		return c.rtTop
	}
	c.rt += mem.Offset(rq.segment)
	return c.rt - mem.Offset(rq.segment)
}

// splits is should_split: strictly more than 1 MiB must remain in the large
// pool, so 19 MiB takes a whole 20 MiB segment.
func (c *core) splits(size mem.Bytes, rq request) bool {
	if rq.pool == smallPool {
		return size-rq.n >= mem.Grain
	}
	return rq.n < c.opt.MaxSplit && size-rq.n > smallSize
}

func (c *core) handOut(i int32, rq request) int32 {
	i = c.carve(i, rq.n, c.splits(c.blocks[i].size, rq))
	c.stats.Active += c.blocks[i].size
	return i
}

// carve prepares a block just taken for use: if cut is set, its first n bytes
// become the block to use and the rest returns to the free set, else all of it
// is used. It keeps the inactive_split accounts; the block was last counted as
// free.
func (c *core) carve(i int32, n mem.Bytes, cut bool) int32 {
	hi := &c.blocks[i]
	split := c.isSplit(hi)
	if !cut {
		if split {
			c.countSplit(-1, -hi.size)
		}
		return i
	}
	l := c.newBlock()
	hi = &c.blocks[i] // newBlock may have moved the records
	lo := &c.blocks[l]
	lo.addr, lo.size, lo.space = hi.addr, n, hi.space
	lo.pool, lo.stream, lo.ext = hi.pool, hi.stream, hi.ext
	c.linkBefore(l, i)
	hi.addr += mem.Offset(n)
	hi.size -= n
	if split {
		c.countSplit(0, -n)
	} else {
		c.countSplit(1, hi.size)
	}
	c.insertFree(i)
	return l
}

func (c *core) countSplit(blocks int64, bytes mem.Bytes) {
	if !c.expandable {
		c.stats.InactiveSplit += blocks
		c.stats.InactiveSplitBytes += bytes
	}
}

// reclaim is free_block.
func (c *core) reclaim(i int32) {
	b := &c.blocks[i]
	c.stats.Requested -= b.asked
	c.stats.Active -= b.size
	b.used, b.deferred = false, false
	c.coalesce(i)
}

// coalesce merges a block nothing uses with its free neighbours and caches it.
func (c *core) coalesce(i int32) {
	if p := c.blocks[i].prev; p != none && c.blocks[p].state == free {
		c.removeFree(p)
		c.countSplit(-1, -c.blocks[p].size)
		c.absorb(i, p)
	}
	if n := c.blocks[i].next; n != none && c.blocks[n].state == free {
		c.removeFree(n)
		c.countSplit(-1, -c.blocks[n].size)
		c.absorb(i, n)
	}
	if b := &c.blocks[i]; c.isSplit(b) {
		c.countSplit(1, b.size)
	}
	c.insertFree(i)
}
