package gmlake

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// A sweep gives something up: sBlocks, segments, spare handles. It waits for the
// streams concerned, unmaps sBlocks, then segments, and returns the handles that
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
	p.synced = p.synced[:0]
	for si := range p.stitches {
		if b := p.stitches[si].block; b != none && p.blocks[b].state == idle {
			out = p.syncHeap(p.blocks[b].heap, out)
		}
	}
	if s.segments() {
		for h := range p.heaps {
			if f := &p.heaps[h].free; len(f[large].entries)+len(f[small].entries) > 0 {
				out = p.syncHeap(int32(h), out)
			}
		}
		for _, b := range p.waiting {
			out = p.syncHeap(p.blocks[b].heap, out)
			for _, u := range p.blocks[b].users {
				out = p.sync(u.stream, out)
			}
		}
	}
	if len(p.synced) == 0 {
		return p.release(out)
	}
	return p.await(phaseWait, out)
}

// syncHeap waits for the stream of a heap of the pool swept.
func (p *Pool) syncHeap(h int32, out []engine.Op) []engine.Op {
	if p.heaps[h].pool != p.act.pool {
		return out
	}
	return p.sync(p.heaps[h].stream, out)
}

func (p *Pool) sync(s mem.StreamID, out []engine.Op) []engine.Op {
	if slices.Contains(p.synced, s) {
		return out
	}
	p.synced = append(p.synced, s)
	p.stats.Syncs++
	return append(out, engine.Op{Kind: engine.OpSync, Stream: s})
}

// swept reports whether the sweep may take what a heap has.
func (p *Pool) swept(h int32) bool {
	return p.heaps[h].pool == p.act.pool && slices.Contains(p.synced, p.heaps[h].stream)
}

// drop unmaps idle sBlocks.
func (p *Pool) drop(out []engine.Op) []engine.Op {
	p.victims = p.victims[:0]
	for si := range p.stitches {
		b := p.stitches[si].block
		if b != none && p.blocks[b].state == idle && p.swept(p.blocks[b].heap) && p.droppable(int32(si)) {
			p.victims = append(p.victims, int32(si))
		}
	}
	for _, si := range p.victims {
		b := &p.blocks[p.stitches[si].block]
		out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: b.addr, Size: b.size})
	}
	if len(p.victims) == 0 {
		return p.unmap(out)
	}
	return p.await(phaseDrop, out)
}

// droppable reports whether the sweep drops an idle sBlock.
func (p *Pool) droppable(si int32) bool {
	s := &p.stitches[si]
	switch p.act.sweep {
	case sweepDoomed:
		return s.doomed
	case sweepFlush:
		return s.doomed || slices.ContainsFunc(s.chunks, func(c int32) bool { return p.wholeSegment(p.chunks[c].owner) })
	}
	return true
}

// dropped forgets the first done victims of drop.
func (p *Pool) dropped(done int) {
	for _, si := range p.victims[:done] {
		n := len(p.stitches[si].chunks)
		p.stats.Mapped -= n
		p.stats.Unmaps += uint64(n)
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
						out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: e.addr, Size: e.size})
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

// unmapped forgets the first done victims of unmap. Chunks that live sBlocks still
// map stay, and doom these.
func (p *Pool) unmapped(done int) {
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
		p.stats.Unmaps += uint64(n)
		p.stats.Views--
		p.space.put(g.page, uint32(n))
		g.first = none
		p.spareSegments = append(p.spareSegments, p.blocks[b].segment)
		p.dropBlock(b)
	}
}

// release returns the spare handles.
func (p *Pool) release(out []engine.Op) []engine.Op {
	if len(p.spares) == 0 {
		return p.climb(out)
	}
	for _, h := range p.spares {
		out = append(out, engine.Op{Kind: engine.OpRelease, Handle: h})
	}
	return p.await(phaseRelease, out)
}

// released forgets the first done handles of release.
func (p *Pool) released(done int) {
	p.numbers = append(p.numbers, p.spares[:done]...)
	p.spares = slices.Delete(p.spares, 0, done)
	p.stats.Releases += uint64(done)
	p.stats.Handles -= done
}

// boundary drops what was doomed and has been freed since.
func (p *Pool) boundary(out []engine.Op) []engine.Op {
	for si := 0; p.doomed > 0 && si < len(p.stitches); si++ {
		s := &p.stitches[si]
		if s.block != none && s.doomed && p.blocks[s.block].state == idle && p.heaps[p.blocks[s.block].heap].pool == 0 {
			return p.sweep(sweepDoomed, out)
		}
	}
	return out
}
