package baseline

import "stalloc/internal/mem"

// flush is release_cached_blocks: every segment that is wholly free goes back
// to the driver, of all streams, even if far more than is needed.
func (c *core) flush() {
	for p := range c.pools {
		pool := &c.pools[pools-1-poolID(p)] // the large pool first
		for s := range pool.free {
			c.scratch = pool.free[s].appendBlocks(c.scratch[:0])
			for _, i := range c.scratch {
				if !c.isSplit(&c.blocks[i]) {
					c.back.release(i)
				}
			}
		}
	}
}

// release gives an unsplit free block back: one cudaFree.
func (c *core) release(i int32) {
	size := c.blocks[i].size
	c.held(c.blocks[i].space, c.blocks[i].addr, size, false)
	c.removeFree(i)
	c.dropBlock(i)
	c.calls.add(MemFree, size, 1)
	c.stats.Segments--
	c.stats.Reserved -= size
}

// releaseAvailable is release_available_cached_blocks: with MaxSplit set, give
// back blocks too large to be split, the one nearest to the request or else the
// largest until they make up for it. It reports whether that is worth another
// attempt. Such blocks are whole segments.
func (c *core) releaseAvailable(rq request) bool {
	if c.opt.MaxSplit == unlimited || c.expandable {
		return false // blocks of expandable segments are exempt
	}
	fs := &c.pools[rq.pool].free[rq.stream]
	need := max(rq.n, c.opt.MaxSplit)
	if cur, ok := fs.ceil(entry{size: need}); ok {
		c.back.release(fs.at(cur).block)
		return true
	}
	c.scratch = c.scratch[:0]
	var released mem.Bytes
	for cur, ok := fs.last(); ok && released < need &&
		fs.at(cur).size >= c.opt.MaxSplit; cur, ok = fs.prev(cur) {
		released += fs.at(cur).size
		c.scratch = append(c.scratch, fs.at(cur).block)
	}
	for _, i := range c.scratch {
		c.back.release(i)
	}
	return released >= need
}

// collectGarbage is garbage_collect_cached_blocks: above the threshold, give
// back the unsplit large blocks that have gone unused for longer than average,
// until enough is reclaimed or nothing more is old.
func (c *core) collectGarbage() {
	if c.opt.GCThreshold == 0 || c.opt.Limit == 0 || c.expandable {
		return
	}
	target := c.stats.Reserved - mem.Bytes(c.opt.GCThreshold*float64(c.opt.Limit))
	for reclaimed := mem.Bytes(0); reclaimed < target; {
		freed := c.releaseOld()
		if freed == 0 {
			return
		}
		reclaimed += freed
	}
}

// releaseOld is one pass of the collector; it returns the bytes given back.
func (c *core) releaseOld() mem.Bytes {
	pool := &c.pools[largePool]
	c.scratch = c.scratch[:0]
	for s := range pool.free {
		c.scratch = pool.free[s].appendBlocks(c.scratch)
	}
	unsplit := c.scratch[:0]
	var ages, count int64
	for _, i := range c.scratch {
		if b := &c.blocks[i]; !c.isSplit(b) {
			unsplit = append(unsplit, i)
			ages += pool.searches - b.born
			count++
		}
	}
	var freed mem.Bytes
	for _, i := range unsplit {
		if b := &c.blocks[i]; (pool.searches-b.born)*count >= ages {
			freed += b.size
			c.back.release(i)
		}
	}
	return freed
}
