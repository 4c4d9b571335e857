package gmlake

import (
	"fmt"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// segment is one growth of the pool: consecutive addresses and their chunks.
type segment struct {
	page   uint32 // its first address, counted in pages
	first  int32  // its lowest block; none: the record is spare
	chunks []int32
}

// chunk is one handle of a segment, or of one that was returned while a live
// sBlock still mapped it.
type chunk struct {
	handle engine.Index
	owner  int32   // the pBlock it lies in; none if that was returned
	over   []int32 // the sBlocks that map it
	taken  bool    // reuse: among the leading chunks of the sBlock
}

func (p *Pool) newChunk(handle engine.Index, owner int32) int32 {
	i := record(&p.chunks, &p.spareChunks)
	p.chunks[i] = chunk{handle: handle, owner: owner, over: p.chunks[i].over[:0]}
	return i
}

// dropChunk keeps the handle of a chunk that nothing maps, unmapped.
func (p *Pool) dropChunk(c int32) {
	p.unmapped = append(p.unmapped, p.chunks[c].handle)
	p.chunks[c].handle = 0
	p.spareChunks = append(p.spareChunks, c)
}

// newSegment makes a segment over handles, and a held block of all of it.
func (p *Pool) newSegment(k kind, heap int32, page uint32, handles []engine.Index) int32 {
	s := record(&p.segments, &p.spareSegments)
	b := p.newBlock(k, heap, p.addr(page), mem.Bytes(len(handles))*pageSize)
	p.blocks[b].segment = s
	g := &p.segments[s]
	g.page, g.first, g.chunks = page, b, g.chunks[:0]
	for _, h := range handles {
		g.chunks = append(g.chunks, p.newChunk(h, b))
	}
	p.stats.Views++
	return b
}

// chunksOf returns the chunks of a pBlock.
func (p *Pool) chunksOf(b int32) []int32 {
	c := &p.blocks[b]
	g := &p.segments[c.segment]
	from := p.page(c.addr) - g.page
	return g.chunks[from : from+uint32(c.size/pageSize)]
}

// split cuts a block that is in no set after its first n bytes and returns the
// upper part, which is held.
func (p *Pool) split(b int32, n mem.Bytes) int32 {
	lo := p.blocks[b]
	u := p.newBlock(lo.kind, lo.heap, lo.addr+mem.Addr(n), lo.size-n)
	up := &p.blocks[u]
	up.segment, up.prev, up.next = lo.segment, b, lo.next
	if lo.next != none {
		p.blocks[lo.next].prev = u
	}
	p.blocks[b].next, p.blocks[b].size = u, n
	p.own(u)
	return u
}

// own tells the chunks of a pBlock that they lie in it.
func (p *Pool) own(b int32) {
	if p.blocks[b].kind != large {
		return
	}
	for _, c := range p.chunksOf(b) {
		p.chunks[c].owner = b
	}
}

// join makes a block and its upper neighbour one.
func (p *Pool) join(lo, up int32) {
	u := p.blocks[up]
	l := &p.blocks[lo]
	l.size += u.size
	if l.next = u.next; u.next != none {
		p.blocks[u.next].prev = lo
	}
	p.dropBlock(up)
	p.own(lo)
}

// coalesce merges a held block of a segment with its free neighbours, and caches
// the result.
func (p *Pool) coalesce(b int32) {
	if n := p.blocks[b].next; n != none && p.blocks[n].state == free {
		p.removeFree(n)
		p.join(b, n)
	}
	if l := p.blocks[b].prev; l != none && p.blocks[l].state == free {
		p.removeFree(l)
		p.join(l, b)
		b = l
	}
	p.insertFree(b)
}

func (p *Pool) insertFree(b int32) {
	c := &p.blocks[b]
	c.state = free
	p.heaps[c.heap].free[c.kind].insert(entry{c.size, c.addr, b})
}

// removeFree takes a free block out of its set. It is held.
func (p *Pool) removeFree(b int32) {
	c := &p.blocks[b]
	if !p.heaps[c.heap].free[c.kind].remove(c.size, c.addr) {
		panic(fmt.Sprintf("gmlake: the free block at %#x is not in its set", c.addr))
	}
	c.state = held
}

// wholeSegment reports whether a free block is all of its segment.
func (p *Pool) wholeSegment(b int32) bool {
	c := &p.blocks[b]
	return c.state == free && c.prev == none && c.next == none
}
