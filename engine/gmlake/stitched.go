package gmlake

import (
	"fmt"
	"slices"

	"stalloc/internal/mem"
)

// stitch is what an sBlock has beside its block.
type stitch struct {
	block  int32   // none: the record is spare
	chunks []int32 // in the order of its addresses
	holds  []int32 // live: the pBlocks in use under it
	free   int     // chunks that lie in free pBlocks
	used   int     // leading chunks in use while it is live
	ready  bool    // in the ready set of its heap: idle, and all chunks free
	doomed bool    // a segment under it was returned: never use it again
}

// shift tells the sBlocks over a pBlock that its chunks are free now (1), or are
// not (-1).
func (p *Pool) shift(b int32, sign int) {
	for _, c := range p.chunksOf(b) {
		p.shiftChunk(c, sign)
	}
}

func (p *Pool) shiftChunk(c int32, sign int) {
	for _, si := range p.chunks[c].over {
		p.stitches[si].free += sign
		p.updateReady(si)
	}
}

// updateReady keeps the ready set what it says it is.
func (p *Pool) updateReady(si int32) {
	s := &p.stitches[si]
	b := &p.blocks[s.block]
	ready := b.state == idle && !s.doomed && s.free == len(s.chunks)
	if ready == s.ready {
		return
	}
	s.ready = ready
	set := &p.heaps[b.heap].ready
	if ready {
		set.insert(entry{b.size, b.addr, s.block})
	} else if !set.remove(b.size, b.addr) {
		panic(fmt.Sprintf("gmlake: the ready sBlock at %#x is not in its set", b.addr))
	}
}

// choose selects the pBlocks to stitch for the request, the largest first. It
// changes nothing; false if they do not suffice.
func (p *Pool) choose() bool {
	a := &p.act
	candidates := &p.heaps[a.heap].free[large]
	p.chosen = p.chosen[:0]
	if len(candidates.entries) < 2 || candidates.bytes < a.n {
		return false
	}
	sum := mem.Bytes(0)
	for i := len(candidates.entries) - 1; sum < a.n; i-- {
		p.chosen = append(p.chosen, candidates.entries[i].block)
		sum += candidates.entries[i].size
	}
	return true
}

// newStitch makes the sBlock whose mapping has just been made at page, over the
// chosen pBlocks. The last of them is cut to what is needed.
func (p *Pool) newStitch(page uint32) int32 {
	a := &p.act
	b := p.newBlock(stitched, a.heap, p.addr(page), a.n)
	si := record(&p.stitches, &p.spareStitches)
	p.blocks[b].stitch = si
	s := &p.stitches[si]
	*s = stitch{block: b, chunks: s.chunks[:0], holds: s.holds[:0]}
	for _, from := range p.chosen {
		p.removeFree(from)
		need := a.n - mem.Bytes(len(s.chunks))*pageSize
		p.cut(from, need)
		p.shift(from, -1)
		s.holds = append(s.holds, from)
		s.chunks = append(s.chunks, p.chunksOf(from)...)
	}
	for _, c := range s.chunks {
		p.chunks[c].over = append(p.chunks[c].over, si)
	}
	s.used = len(s.chunks)
	p.virtual += a.n
	p.stats.Views++
	return b
}

// reuse takes the smallest sBlock that is ready and large enough, unless it is too
// large, for the request. Only its leading chunks are taken; whoever else maps the
// others may go on using them.
func (p *Pool) reuse() int32 {
	a := &p.act
	ready := &p.heaps[a.heap].ready
	i, ok := ready.ceil(a.n)
	if !ok || float64(ready.entries[i].size) > float64(a.n)*p.cfg.ReuseLimit {
		return none
	}
	b := ready.entries[i].block
	si := p.blocks[b].stitch
	p.blocks[b].state = held
	p.updateReady(si)
	s := &p.stitches[si]
	s.used = int(a.n / pageSize)
	s.holds = s.holds[:0]
	p.chosen = p.chosen[:0]
	for _, c := range s.chunks[:s.used] {
		p.chunks[c].taken = true
		p.shiftChunk(c, -1)
		if owner := p.chunks[c].owner; p.blocks[owner].state == free {
			p.removeFree(owner)
			p.chosen = append(p.chosen, owner)
		}
	}
	for _, from := range p.chosen {
		p.cutRuns(s, from)
	}
	return b
}

// cutRuns divides a pBlock into its runs of taken chunks, which the sBlock holds,
// and of others, which are free.
func (p *Pool) cutRuns(s *stitch, b int32) {
	for b != none {
		chunks := p.chunksOf(b)
		taken := p.chunks[chunks[0]].taken
		run := 0
		for run < len(chunks) && p.chunks[chunks[run]].taken == taken {
			p.chunks[chunks[run]].taken = false
			run++
		}
		rest := none
		if run < len(chunks) {
			rest = p.split(b, mem.Bytes(run)*pageSize)
		}
		if taken {
			s.holds = append(s.holds, b)
		} else {
			p.insertFree(b)
		}
		b = rest
	}
}

// retire ends the use of a live sBlock: its pBlocks are free, it stays as a cache.
func (p *Pool) retire(b int32) {
	si := p.blocks[b].stitch
	s := &p.stitches[si]
	p.blocks[b].state = idle
	s.used = 0
	for _, from := range s.holds {
		p.shift(from, 1)
		p.coalesce(from)
	}
	s.holds = s.holds[:0]
	p.updateReady(si)
}

// dropStitch forgets an idle sBlock that has been unmapped. Chunks that only it
// kept become unmapped handles.
func (p *Pool) dropStitch(si int32) {
	s := &p.stitches[si]
	b := &p.blocks[s.block]
	b.state = held
	p.updateReady(si)
	for _, c := range s.chunks {
		over := &p.chunks[c].over
		i := slices.Index(*over, si)
		*over = slices.Delete(*over, i, i+1)
		if p.chunks[c].owner == none && len(*over) == 0 {
			p.dropChunk(c)
		}
	}
	p.space.put(p.page(b.addr), uint32(len(s.chunks)))
	p.virtual -= b.size
	if s.doomed {
		p.doomed--
	}
	p.stats.Views--
	p.stats.Evicted++
	p.dropBlock(s.block)
	s.block = none
	p.spareStitches = append(p.spareStitches, si)
}
