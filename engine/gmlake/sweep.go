package gmlake

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// A sweep gives something up: sBlocks, segments, unmapped handles. It waits for the
// device, unmaps sBlocks, then segments, and returns the handles that
// nothing maps any more. What a call fails on stays as it was.
type sweep uint8

const (
	sweepFlush    sweep = iota // wholly free segments, and the idle sBlocks over them
	sweepTrim                  // these, and every idle sBlock
	sweepDoomed                // doomed sBlocks
	sweepStitched              // every idle sBlock
)

// segments reports whether a sweep returns segments.
func (s sweep) segments() bool { return s <= sweepTrim }

// sweep begins one in the action's pool: the default one, unless EvTrim named
// another.
func (p *Pool) sweep(s sweep, out []engine.Op) []engine.Op {
	a := &p.act
	a.sweep = s
	a.synced = false
	if !p.idle() {
		return p.release(out)
	}
	p.stats.Syncs++
	return p.await(phaseWait, append(out, engine.Op{Kind: engine.OpSync}))
}

// idle reports whether the sweep may find something.
func (p *Pool) idle() bool {
	if len(p.leftovers) > 0 {
		return true
	}
	for si := range p.stitches {
		if b := p.stitches[si].block; b != none && p.blocks[b].state == idle &&
			p.meant(p.blocks[b].heap) {
			return true
		}
	}
	if !p.act.sweep.segments() {
		return false
	}
	for h := range p.heaps {
		if f := &p.heaps[h].free; p.meant(int32(h)) &&
			len(f[large].entries)+len(f[small].entries) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(p.waiting, func(b int32) bool { return p.meant(p.blocks[b].heap) })
}

// meant reports whether a heap is of the pool that is swept, or of those that it stands for.
func (p *Pool) meant(h int32) bool {
	x, pool := &p.heaps[h], p.act.pool
	switch pool {
	case engine.Regions:
		return x.pool >= engine.FirstRegion
	case 0, engine.Released:
		return x.pool == pool || x.over
	}
	return x.pool == pool
}

// swept reports whether the sweep may take what a heap has.
func (p *Pool) swept(h int32) bool {
	return p.act.synced && p.meant(h)
}

// drop unmaps idle sBlocks, and what no block has.
func (p *Pool) drop(out []engine.Op) []engine.Op {
	p.victims = p.victims[:0]
	for si := range p.stitches {
		b := p.stitches[si].block
		if b != none && p.blocks[b].state == idle && p.swept(p.blocks[b].heap) &&
			p.droppable(int32(si)) {
			p.victims = append(p.victims, int32(si))
		}
	}
	for _, si := range p.victims {
		b := &p.blocks[p.stitches[si].block]
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: b.addr, Size: b.size})
	}
	for _, s := range p.leftovers {
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: p.addr(s.page),
			Size: mem.Bytes(len(s.handles)) * pageSize})
	}
	if len(p.victims)+len(p.leftovers) == 0 {
		return p.unmap(out)
	}
	return p.await(phaseDrop, out)
}

// collected forgets a leftover that was unmapped.
func (p *Pool) collected(i int) {
	s := p.leftovers[i]
	p.leftovers = slices.Delete(p.leftovers, i, i+1)
	p.space.put(s.page, uint32(s.pages))
}

// droppable reports whether the sweep drops an idle sBlock.
func (p *Pool) droppable(si int32) bool {
	s := &p.stitches[si]
	switch p.act.sweep {
	case sweepDoomed:
		return s.doomed
	case sweepFlush:
		return s.doomed || slices.ContainsFunc(s.chunks,
			func(c int32) bool { return p.wholeSegment(p.chunks[c].owner) })
	}
	return true
}

// dropped forgets the first done victims of drop; the leftovers are after them.
func (p *Pool) dropped(done int) {
	for n := done - len(p.victims); n > 0; n-- {
		p.collected(0)
	}
	for _, si := range p.victims[:min(done, len(p.victims))] {
		n := len(p.stitches[si].chunks)
		p.stats.Mapped -= n
		p.dropStitch(si)
	}
}

// unmap unmaps the wholly free segments that no idle sBlock lies over.
func (p *Pool) unmap(out []engine.Op) []engine.Op {
	p.victims = p.victims[:0]
	if p.act.sweep.segments() {
		for _, k := range [...]kind{large, small} {
			for h := range p.heaps {
				if !p.swept(int32(h)) {
					continue
				}
				for _, e := range p.heaps[h].free[k].entries {
					if p.wholeSegment(e.block) && !p.underIdle(e.block) {
						p.victims = append(p.victims, e.block)
						out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr,
							Size: e.size})
					}
				}
			}
		}
	}
	if len(p.victims) == 0 {
		return p.release(out)
	}
	return p.await(phaseUnmap, out)
}

// underIdle reports whether an idle sBlock, which could not be dropped, maps a
// chunk of the block.
func (p *Pool) underIdle(b int32) bool {
	for _, c := range p.chunksOf(b) {
		for _, si := range p.chunks[c].over {
			if p.blocks[p.stitches[si].block].state == idle {
				return true
			}
		}
	}
	return false
}

// gone forgets the first done victims of unmap. Chunks that live sBlocks still
// map stay, and doom these.
func (p *Pool) gone(done int) {
	for _, b := range p.victims[:done] {
		p.removeFree(b)
		g := &p.segments[p.blocks[b].segment]
		for _, c := range g.chunks {
			p.chunks[c].owner = none
			for _, si := range p.chunks[c].over {
				if s := &p.stitches[si]; !s.doomed {
					s.doomed = true
					p.doomed++
				}
			}
			if len(p.chunks[c].over) == 0 {
				p.dropChunk(c)
			}
		}
		n := len(g.chunks)
		p.stats.Mapped -= n
		p.stats.Views--
		p.space.put(g.page, uint32(n))
		g.first = none
		p.spareSegments = append(p.spareSegments, p.blocks[b].segment)
		p.dropBlock(b)
	}
}

// release returns the unmapped handles, but for those that leftovers map: the driver would keep
// their memory.
func (p *Pool) release(out []engine.Op) []engine.Op {
	mapped := func(h engine.Index) bool {
		return slices.ContainsFunc(p.leftovers,
			func(l leftover) bool { return slices.Contains(l.handles, h) })
	}
	stay := slices.DeleteFunc(slices.Clone(p.unmapped),
		func(h engine.Index) bool { return !mapped(h) })
	p.unmapped = append(slices.DeleteFunc(p.unmapped, mapped), stay...)
	if len(p.unmapped) == len(stay) {
		return p.try(out)
	}
	for _, h := range p.unmapped[:len(p.unmapped)-len(stay)] {
		out = append(out, engine.Op{Kind: engine.OpRelease, Handle: h})
	}
	return p.await(phaseRelease, out)
}

// released forgets the first done handles of release.
func (p *Pool) released(done int) {
	p.numbers = append(p.numbers, p.unmapped[:done]...)
	p.unmapped = slices.Delete(p.unmapped, 0, done)
	p.stats.Releases += uint64(done)
	p.stats.Handles -= done
}

// boundary drops what was doomed and has been freed since.
func (p *Pool) boundary(out []engine.Op) []engine.Op {
	for si := 0; p.doomed > 0 && si < len(p.stitches); si++ {
		s := &p.stitches[si]
		if s.block != none && s.doomed && p.blocks[s.block].state == idle &&
			p.meant(p.blocks[s.block].heap) {
			return p.sweep(sweepDoomed, out)
		}
	}
	return out
}
