package gmlake

import (
	"errors"
	"fmt"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// counted is what Check has seen.
type counted struct {
	handles             map[engine.Index]bool
	free, ready, doomed int
	mapped, views       int
	blocks              int
	load, pending       mem.Bytes
	virtual             mem.Bytes
}

// Check recounts the whole state. It returns the first broken invariants.
func (p *Pool) Check() error {
	c := &counted{handles: map[engine.Index]bool{}}
	for s := range p.segments {
		if p.segments[s].first != none {
			if err := p.checkSegment(int32(s), c); err != nil {
				return err
			}
		}
	}
	for si := range p.stitches {
		if p.stitches[si].block != none {
			if err := p.checkStitch(int32(si), c); err != nil {
				return err
			}
		}
	}
	for b := range p.blocks {
		if err := p.checkBlock(int32(b), c); err != nil {
			return err
		}
	}
	var err error
	if s := p.stats; c.load != s.Load || c.pending != s.Pending || c.blocks != s.Blocks ||
		c.blocks != len(p.at) ||
		c.mapped != s.Mapped || c.views != s.Views || c.doomed != p.doomed ||
		c.virtual != p.virtual {
		err = fmt.Errorf("counted %+v, virtual %v, doomed %d; found %+v", s, p.virtual, p.doomed,
			*c)
	}
	return errors.Join(p.checkHandles(c), p.checkSets(c), err)
}

// checkSegment: blocks tile it, own its chunks, and no free ones are neighbours.
func (p *Pool) checkSegment(s int32, c *counted) error {
	g := &p.segments[s]
	at, before := p.addr(g.page), none
	for b := g.first; b != none; before, b = b, p.blocks[b].next {
		x := &p.blocks[b]
		if x.addr != at || x.prev != before || x.segment != s || x.size <= 0 || x.state == gone ||
			x.state == idle {
			return fmt.Errorf("block %d does not continue segment %d at %#x: %+v", b, s, at, *x)
		}
		if x.state == free {
			c.free++
			if before != none && p.blocks[before].state == free {
				return fmt.Errorf("the free blocks before and at %#x are not merged", at)
			}
		}
		at += mem.Addr(x.size)
		if x.kind != large {
			continue
		}
		for _, k := range p.chunksOf(b) {
			if p.chunks[k].owner != b || p.chunks[k].taken {
				return fmt.Errorf("chunk %d of the pBlock at %#x: %+v", k, x.addr, p.chunks[k])
			}
		}
	}
	if at != p.addr(g.page+uint32(len(g.chunks))) {
		return fmt.Errorf("the blocks of segment %d end at %#x, it has %d chunks", s, at,
			len(g.chunks))
	}
	for _, k := range g.chunks {
		if c.handles[p.chunks[k].handle] {
			return fmt.Errorf("handle %d is in two chunks", p.chunks[k].handle)
		}
		c.handles[p.chunks[k].handle] = true
		for _, si := range p.chunks[k].over {
			if p.stitches[si].block == none {
				return fmt.Errorf("chunk %d is under sBlock %d, which is gone", k, si)
			}
		}
	}
	c.mapped += len(g.chunks)
	c.views++
	return nil
}

// checkStitch recounts one sBlock.
func (p *Pool) checkStitch(si int32, c *counted) error {
	s := &p.stitches[si]
	b := &p.blocks[s.block]
	inUse := map[int32]bool{}
	for _, held := range s.holds {
		for _, k := range p.chunksOf(held) {
			inUse[k] = true
		}
	}
	unused := 0
	for i, k := range s.chunks {
		x := &p.chunks[k]
		times := 0
		for _, o := range x.over {
			if o == si {
				times++
			}
		}
		if times != 1 || x.owner == none && !s.doomed || inUse[k] != (i < s.used) {
			return fmt.Errorf("chunk %d of the sBlock at %#x, which uses %d: held is %v, %+v", i,
				b.addr, s.used, inUse[k], *x)
		}
		if x.owner == none {
			c.handles[x.handle] = true
		} else if p.blocks[x.owner].state == free {
			unused++
		}
	}
	isIdle := b.state == idle
	if b.kind != stitched || b.stitch != si || b.size != mem.Bytes(len(s.chunks))*pageSize ||
		isIdle != (s.used == 0) || len(inUse) != s.used || !s.doomed && s.free != unused ||
		s.ready != (isIdle && !s.doomed && unused == len(s.chunks)) {
		return fmt.Errorf("the %v sBlock at %#x, %d of its %d chunks free, %d held: %+v", b.state,
			b.addr, unused, len(s.chunks), len(inUse), *s)
	}
	if s.ready {
		c.ready++
	}
	if s.doomed {
		c.doomed++
	}
	c.mapped += len(s.chunks)
	c.views++
	c.virtual += b.size
	return nil
}

// checkBlock: live and pending blocks are found by address, and wait for known fences.
func (p *Pool) checkBlock(b int32, c *counted) error {
	x := &p.blocks[b]
	switch x.state {
	case live:
		c.load += x.asked
	case pending:
		c.pending += x.asked
		if len(x.users) == 0 {
			return fmt.Errorf("the pending block at %#x waits for nothing", x.addr)
		}
		for _, u := range x.users {
			if at, ok := p.fences[u.fence]; u.fence != 0 && (!ok || at != b) {
				return fmt.Errorf("fence %d of the block at %#x is not known", u.fence, x.addr)
			}
		}
	default:
		return nil
	}
	c.blocks++
	if at, ok := p.at[x.addr]; !ok || at != b {
		return fmt.Errorf("the %v block at %#x is not found", x.state, x.addr)
	}
	return nil
}

// checkHandles: each is in one chunk or unmapped, and no other number is in use.
func (p *Pool) checkHandles(c *counted) error {
	for _, h := range p.unmapped {
		if c.handles[h] {
			return fmt.Errorf("the unmapped handle %d is in a chunk", h)
		}
		c.handles[h] = true
	}
	for _, s := range p.leftovers {
		for _, h := range s.handles {
			if !c.handles[h] {
				return fmt.Errorf("handle %d was released and is mapped at page %d", h, s.page)
			}
		}
	}
	for _, h := range p.numbers {
		if c.handles[h] {
			return fmt.Errorf("handle %d exists and its number is free", h)
		}
	}
	reserved := 0 // by a batch whose answer is due
	if p.act.phase == phaseGrow {
		reserved = p.act.creates
	}
	if len(c.handles) != p.stats.Handles ||
		len(c.handles)+len(p.numbers)+reserved != int(p.numbered) {
		return fmt.Errorf("%d handles found, %d counted, %d numbers free of %d", len(c.handles),
			p.stats.Handles, len(p.numbers), p.numbered)
	}
	return nil
}

// checkSets: free blocks and ready sBlocks are in the sets of their heap, in order.
func (p *Pool) checkSets(c *counted) error {
	entries := [2]int{}
	for h := range p.heaps {
		x := &p.heaps[h]
		for k, s := range [...]*set{&x.free[large], &x.free[small], &x.ready} {
			bytes := mem.Bytes(0)
			for i, e := range s.entries {
				b := &p.blocks[e.block]
				belongs := b.kind == kind(k) &&
					(b.state == free || b.kind == stitched && p.stitches[b.stitch].ready)
				if b.size != e.size || b.addr != e.addr || int(b.heap) != h || !belongs || i > 0 &&
					!s.entries[i-1].less(e) {
					return fmt.Errorf("entry %d of a set, %+v, is of block %+v", i, e, *b)
				}
				bytes += e.size
			}
			if bytes != s.bytes {
				return fmt.Errorf("a set holds %v, %v counted", bytes, s.bytes)
			}
			entries[k/2] += len(s.entries)
		}
	}
	if entries != [2]int{c.free, c.ready} {
		return fmt.Errorf("%d free blocks and %d ready sBlocks, in the sets are %d", c.free,
			c.ready, entries)
	}
	return nil
}
