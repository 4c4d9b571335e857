package baseline

import "stalloc/internal/mem"

// release gives a whole free segment back. Idle sBlocks over its chunks are
// dropped first. A live one can lie over them too, if it serves a request
// smaller than itself: it is doomed, and what it maps stays on the device until
// it is freed, although the accounts no longer count it.
func (g *GMLake) release(i int32) {
	b := &g.blocks[i]
	if b.pool == smallPool {
		g.core.release(i)
		return
	}
	size, first := b.size, b.ext
	g.removeFree(i)
	g.dropBlock(i)
	g.stats.Segments--
	g.stats.Reserved -= size
	chunks := int64(size / chunk)
	g.calls.add(Unmap, chunk, chunks)
	g.calls.add(AddressFree, size, 1)
	g.noted = g.noted[:0]
	for a := first; a != none; {
		next := g.atoms[a].next
		g.atoms[a].prev, g.atoms[a].next, g.atoms[a].owner = none, none, none
		g.atoms[a].ghost = true
		if g.atoms[a].maps == none {
			g.dropGhost(a)
		} else {
			g.doom(a)
		}
		a = next
	}
	// Only now, because dropping an sBlock drops ghosts anywhere in the walk.
	for _, si := range g.noted {
		g.dropStitched(si)
	}
}

// doom notes the idle sBlocks over an atom, each once, and marks the live ones.
func (g *GMLake) doom(a int32) {
	for m := g.atoms[a].maps; m != none; m = g.maps[m].next {
		si := g.maps[m].stitch
		s := &g.stitchs[si]
		if !s.doomed && g.blocks[s.block].state == idle {
			g.noted = append(g.noted, si)
		}
		s.doomed = true
	}
}

// dropGhost returns the physical memory of an atom nothing maps any more.
func (g *GMLake) dropGhost(a int32) {
	n := g.atoms[a].chunks
	g.calls.add(Release, chunk, n)
	g.stats.Physical -= mem.Bytes(n) * chunk
	g.spareAtoms = append(g.spareAtoms, a)
}

// dropStitched is StitchFree for one sBlock that is idle: its mappings and its
// addresses go.
func (g *GMLake) dropStitched(si int32) {
	s := &g.stitchs[si]
	i := s.block
	b := &g.blocks[i]
	if s.isReady {
		s.isReady = false
		g.readySet(b.stream).remove(b.size, b.addr)
	}
	g.calls.add(Unmap, chunk, s.chunks)
	g.calls.add(AddressFree, b.size, 1)
	g.virtual -= b.size
	for m := s.first; m != none; {
		a, next := g.maps[m].atom, g.maps[m].nextInStitch
		g.removeMapping(m)
		if g.atoms[a].maps == none {
			g.unmappedAtom(a)
		}
		m = next
	}
	g.dropBlock(i)
	g.spareStitchs = append(g.spareStitchs, si)
}

// unmappedAtom is told that no sBlock lies over an atom any more.
func (g *GMLake) unmappedAtom(a int32) {
	if !g.atoms[a].ghost {
		if n := g.atoms[a].next; n != none {
			g.joinAtom(n)
		}
		g.joinAtom(a)
		return
	}
	g.dropGhost(a)
}

// dropIdle is gc at its highest level: every idle sBlock of every stream.
func (g *GMLake) dropIdle() {
	for i := range g.blocks {
		if b := &g.blocks[i]; b.stitched && b.state == idle {
			g.dropStitched(b.ext)
		}
	}
}

// EmptyCache also drops the stitched blocks that are not in use.
func (g *GMLake) EmptyCache() {
	g.core.EmptyCache()
	g.dropIdle()
}
