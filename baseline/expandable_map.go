package baseline

import "stalloc/internal/mem"

// mapFront maps the first n bytes of an unmapped block, in whole pages, and
// returns the free block they became part of. If the device is full it gives
// back the pages of this call and returns none; pages of earlier calls for the
// same request stay mapped, as free memory.
func (e *Expandable) mapFront(i int32, n mem.Bytes) int32 {
	unit := page(e.blocks[i].pool)
	pages := int64((n + unit - 1) / unit)
	mapped := mem.Bytes(pages) * unit
	if !e.fits(mapped) {
		// One handle after the other is created until one cannot be.
		created := int64(max(e.opt.Capacity-e.stats.Reserved, 0) / unit)
		e.calls.add(Create, unit, created+1)
		e.calls.add(Release, unit, created)
		return none
	}
	e.calls.add(Create, unit, pages)
	e.calls.add(Map, unit, pages)
	e.calls.access(unit, pages)
	e.stats.grew(mapped)
	e.held(e.blocks[i].space, e.blocks[i].addr, mapped, true)

	e.removeHole(i)
	if b := &e.blocks[i]; b.size > mapped {
		e.cutFront(i, mapped)
		rest := i
		i = e.blocks[rest].prev
		e.insertHole(rest)
	}
	e.coalesce(i)
	return i
}

// cutFront makes the first n bytes of a block that is in no set a block of
// their own, in front of it.
func (e *Expandable) cutFront(i int32, n mem.Bytes) {
	l := e.newBlock()
	lo, hi := &e.blocks[l], &e.blocks[i]
	lo.addr, lo.size, lo.space = hi.addr, n, hi.space
	lo.pool, lo.stream, lo.ext = hi.pool, hi.stream, hi.ext
	e.linkBefore(l, i)
	hi.addr += mem.Offset(n)
	hi.size -= n
}

// flush unmaps every page that is wholly free, in both pools and on all
// streams.
func (e *Expandable) flush() {
	for p := range e.pools {
		pool := &e.pools[pools-1-poolID(p)] // the large pool first
		for s := range pool.free {
			e.scratch = pool.free[s].appendBlocks(e.scratch[:0])
			for _, i := range e.scratch {
				e.unmapPages(i)
			}
		}
	}
}

// unmapPages unmaps the whole pages inside a free block. What lies before and
// behind them stays mapped and free.
func (e *Expandable) unmapPages(i int32) {
	b := &e.blocks[i]
	unit := mem.Offset(page(b.pool))
	base := e.starts[b.ext]
	from := base + (b.addr-base+unit-1)/unit*unit
	to := base + (b.addr+mem.Offset(b.size)-base)/unit*unit
	if from >= to {
		return
	}
	e.removeFree(i)
	if head := mem.Bytes(from - b.addr); head > 0 {
		e.cutFront(i, head)
		e.insertFree(e.blocks[i].prev)
	}
	if b := &e.blocks[i]; b.addr+mem.Offset(b.size) > to {
		e.cutFront(i, mem.Bytes(to-from))
		e.insertFree(i)
		i = e.blocks[i].prev
	}
	pages := int64((to - from) / unit)
	e.calls.add(Unmap, mem.Bytes(unit), pages)
	e.calls.add(Release, mem.Bytes(unit), pages)
	e.stats.Reserved -= mem.Bytes(to - from)
	e.held(e.blocks[i].space, from, mem.Bytes(to-from), false)
	e.joinHoles(i)
}

// joinHoles merges a block just unmapped with unmapped neighbours; a segment
// with nothing mapped is given up.
func (e *Expandable) joinHoles(i int32) {
	if p := e.blocks[i].prev; p != none && e.blocks[p].state == unmapped {
		e.removeHole(p)
		e.absorb(i, p)
	}
	if n := e.blocks[i].next; n != none && e.blocks[n].state == unmapped {
		e.removeHole(n)
		e.absorb(i, n)
	}
	if b := &e.blocks[i]; !e.isSplit(b) {
		e.calls.add(AddressFree, b.size, 1)
		e.dropBlock(i)
		return
	}
	e.insertHole(i)
}
