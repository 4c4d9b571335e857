package baseline

import "stalloc/internal/mem"

// rescue stitches: it maps the chunks of several free pBlocks, the largest
// first, behind each other at a new address. It tries at no stage earlier than
// DefragLevel and for no request smaller than FragLimit, and takes nothing
// unless it can take enough.
func (g *GMLake) rescue(rq request, stage int) int32 {
	fs := &g.pools[largePool].free[rq.stream]
	if stage < g.opt.DefragLevel || rq.pool == smallPool || rq.n < g.opt.FragLimit ||
		fs.count < 2 || fs.bytes < rq.n {
		return none
	}
	si := g.newStitched(rq)
	last, lastHeld := none, none
	for sum := mem.Bytes(0); sum < rq.n; {
		cur, _ := fs.last()
		p := fs.at(cur).block
		fs.removeAt(cur)
		keep := min(rq.n-sum, g.blocks[p].size)
		p = g.carve(p, keep, keep < g.blocks[p].size)
		sum += keep
		lastHeld = g.hold(si, p, lastHeld)
		last = g.mapUnder(si, p, last)
	}
	i := g.stitchs[si].block
	chunks := g.stitchs[si].chunks
	g.calls.add(Reserve, rq.n, 1)
	g.mapChunks(chunks)
	g.stats.Segments++
	g.virtual += rq.n
	if g.virtual > g.opt.AutoGC {
		g.dropIdle()
	}
	return i
}

// newStitched makes an sBlock without mappings, in use from the start.
func (g *GMLake) newStitched(rq request) int32 {
	i := g.newBlock()
	si := record(&g.stitchs, &g.spareStitchs)
	b := &g.blocks[i]
	b.addr, b.size, b.space = g.vm, rq.n, VM
	b.pool, b.stream = largePool, rq.stream
	b.stitched, b.ext, b.state = true, si, live
	g.vm += mem.Offset(rq.n)
	chunks := int64(rq.n / chunk)
	g.stitchs[si] = stitched{block: i, first: none, heldBy: none, chunks: chunks, used: chunks}
	return si
}

// hold marks a pBlock as in use under an sBlock and appends it to the sBlock's
// list behind last.
func (g *GMLake) hold(si, p, last int32) int32 {
	b := &g.blocks[p]
	b.state = held
	b.chain = none
	g.stats.Active += b.size
	if last == none {
		g.stitchs[si].heldBy = p
	} else {
		g.blocks[last].chain = p
	}
	return p
}

// mapUnder maps all chunks of a pBlock at the end of the sBlock, and takes them
// from every other sBlock.
func (g *GMLake) mapUnder(si, p, last int32) int32 {
	left := int64(g.blocks[p].size / chunk)
	for a := g.blocks[p].ext; left > 0; a = g.atoms[a].next {
		g.shiftAtom(a, -1, si)
		last = g.addMapping(si, a, last)
		left -= g.atoms[a].chunks
	}
	return last
}

// reuse serves a request by the smallest sBlock that is ready and large enough,
// unless it is too large. Only the leading chunks are taken; whoever else maps
// the others may go on using them.
func (g *GMLake) reuse(rq request) int32 {
	ready := g.readySet(rq.stream)
	cur, ok := ready.ceil(entry{size: rq.n})
	if !ok || float64(ready.at(cur).size) > float64(rq.n)*g.opt.ReuseLimit {
		return none
	}
	i := ready.at(cur).block
	si := g.blocks[i].ext
	g.blocks[i].state = live
	g.updateReady(si)
	keep := int64(rq.n / chunk)
	g.takeLeading(si, keep)
	lastHeld := none
	for _, p := range g.noted {
		lastHeld = g.cutRuns(si, p, lastHeld)
	}
	s := &g.stitchs[si]
	s.used = keep
	s.free = s.chunks - keep
	return i
}

// takeLeading marks the first keep chunks of an sBlock as used and notes their
// pBlocks, which are all free, taking them out of the free set.
func (g *GMLake) takeLeading(si int32, keep int64) {
	g.noted = g.noted[:0]
	before, owner := none, none
	for m := g.stitchs[si].first; keep > 0; m = g.maps[m].nextInStitch {
		a := g.maps[m].atom
		if g.atoms[a].chunks > keep {
			g.cutAtom(a, keep)
		}
		at := &g.atoms[a]
		keep -= at.chunks
		at.used = true
		g.shiftAtom(a, -1, si)
		if at.owner != none || before == none || at.prev != before {
			owner = g.ownerOf(a)
		}
		before = a
		if g.blocks[owner].state == free {
			g.removeFree(owner)
			g.blocks[owner].state = held
			if b := &g.blocks[owner]; g.isSplit(b) {
				g.countSplit(-1, -b.size)
			}
			g.noted = append(g.noted, owner)
		}
	}
}

// ownerOf walks to the first atom of the pBlock.
func (g *GMLake) ownerOf(a int32) int32 {
	for g.atoms[a].owner == none {
		a = g.atoms[a].prev
	}
	return g.atoms[a].owner
}

// cutRuns divides a noted pBlock into its runs of used and unused atoms, in
// place. The used ones are held by the sBlock, the others are free.
func (g *GMLake) cutRuns(si, p, lastHeld int32) int32 {
	for p != none {
		first := g.blocks[p].ext
		used := g.atoms[first].used
		left := int64(g.blocks[p].size / chunk)
		var run int64
		for a := first; run < left && g.atoms[a].used == used; a = g.atoms[a].next {
			run += g.atoms[a].chunks
			g.atoms[a].used = false
		}
		rest := none
		if run < left {
			rest, p = p, g.cutPBlock(p, mem.Bytes(run)*chunk)
		}
		if used {
			lastHeld = g.hold(si, p, lastHeld)
		} else {
			g.insertFree(p)
			g.countSplit(1, g.blocks[p].size)
		}
		p = rest
	}
	return lastHeld
}

// cutPBlock makes the front of a pBlock that is in no set a pBlock of its own.
func (g *GMLake) cutPBlock(p int32, n mem.Bytes) int32 {
	l := g.newBlock()
	lo, hi := &g.blocks[l], &g.blocks[p]
	lo.addr, lo.size, lo.space = hi.addr, n, hi.space
	lo.pool, lo.stream = hi.pool, hi.stream
	g.linkBefore(l, p)
	hi.addr += mem.Offset(n)
	hi.size -= n
	g.divided(l, p)
	return l
}
