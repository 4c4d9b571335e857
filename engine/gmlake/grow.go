package gmlake

import (
	"stalloc/engine"
	"stalloc/internal/mem"
)

// grow asks for a segment: all of it, or none; false if that cannot be.
func (p *Pool) grow(out []engine.Op) ([]engine.Op, bool) {
	a := &p.act
	pages := int(a.segment / pageSize)
	if pages > p.limit-p.stats.Handles {
		a.reason = engine.RefusedLimit
		return out, false
	}
	page, ok := p.space.take(uint32(pages))
	if !ok {
		a.reason = engine.RefusedWindow
		return out, false
	}
	a.page, a.pages, a.creates = page, pages, pages
	p.picks = p.picks[:0]
	for range a.creates {
		h := p.number()
		p.picks = append(p.picks, h)
		out = append(out, engine.Op{Kind: engine.OpCreate, Handle: h, Size: pageSize})
	}
	return p.mapAll(phaseGrow, out), true
}

// mapAll maps the picks at the addresses of the action. It grants rights chunk by chunk, as the
// released code does, which costs a little less than all at once.
func (p *Pool) mapAll(ph phase, out []engine.Op) []engine.Op {
	a := &p.act
	for i, h := range p.picks {
		out = append(out, engine.Op{Kind: engine.OpMap, Addr: p.addr(a.page + uint32(i)), Handle: h,
			Size: pageSize})
	}
	for i := range p.picks {
		out = append(out, engine.Op{Kind: engine.OpAccess, Addr: p.addr(a.page + uint32(i)),
			Size: pageSize})
	}
	return p.await(ph, out)
}

// number returns a number that no handle has.
func (p *Pool) number() engine.Index {
	if k := len(p.numbers); k > 0 {
		h := p.numbers[k-1]
		p.numbers = p.numbers[:k-1]
		return h
	}
	p.numbered++
	return p.numbered
}

// countMaps counts the maps among the first done calls that follow the creates.
func (p *Pool) countMaps(done int) {
	a := &p.act
	a.mapped = min(max(done-a.creates, 0), a.pages)
	p.stats.Maps += uint64(a.mapped)
	p.stats.Mapped += a.mapped
}

// grown makes the segment, if all calls succeeded. Else what was created stays unmapped.
func (p *Pool) grown(done int) int32 {
	a := &p.act
	made := min(done, a.creates)
	p.stats.Creates += uint64(made)
	p.stats.Handles += made
	p.countMaps(done)
	if done == a.ops {
		return p.newSegment(a.kind, a.heap, a.page, p.picks)
	}
	p.unmapped = append(p.unmapped, p.picks[:made]...)
	p.numbers = append(p.numbers, p.picks[made:]...)
	return none
}

// stitch maps the chosen pBlocks' chunks after each other; false if it may not,
// or there is not enough.
func (p *Pool) stitch(r attempt, out []engine.Op) ([]engine.Op, bool) {
	a := &p.act
	if int(r-attemptStitch0) < p.cfg.DefragLevel || a.n < p.cfg.FragLimit || !p.choose() {
		return out, false
	}
	a.pages, a.creates = int(a.n/pageSize), 0
	if p.cfg.AutoGC > 0 && p.virtual+a.n > p.cfg.AutoGC && !a.swept {
		return p.stitchAgain(r, out)
	}
	page, ok := p.space.take(uint32(a.pages))
	if !ok {
		a.reason = engine.RefusedWindow
		return p.stitchAgain(r, out)
	}
	a.page, a.attempt = page, r
	p.picks = p.picks[:0]
	for _, b := range p.chosen {
		for _, c := range p.chunksOf(b) {
			if len(p.picks) < a.pages {
				p.picks = append(p.picks, p.chunks[c].handle)
			}
		}
	}
	return p.mapAll(phaseStitch, out), true
}

// stitchAgain drops the idle sBlocks before another attempt; false if that has been
// tried.
func (p *Pool) stitchAgain(r attempt, out []engine.Op) ([]engine.Op, bool) {
	a := &p.act
	if a.swept {
		return out, false
	}
	a.swept = true
	a.attempts = append([]attempt{r}, a.attempts...)
	return p.sweep(sweepStitched, out), true
}

// stitched makes the sBlock, if all calls succeeded.
func (p *Pool) stitched(done int) int32 {
	p.countMaps(done)
	if done < p.act.ops {
		return none
	}
	p.stats.Stitches++
	return p.newStitch(p.act.page)
}

// scrap unmaps what a failed batch has mapped. Nothing has used it, so there is
// nothing to wait for. What stays mapped is unmapped by the next sweep.
func (p *Pool) scrap(stitching bool, out []engine.Op) []engine.Op {
	a := &p.act
	a.stitching = stitching
	if a.mapped == 0 {
		p.space.put(a.page, uint32(a.pages))
		return p.scrapped(out)
	}
	out = append(out, engine.Op{Kind: engine.OpUnmap, Addr: p.addr(a.page),
		Size: mem.Bytes(a.mapped) * pageSize})
	return p.await(phaseScrap, out)
}

func (p *Pool) scrapped(out []engine.Op) []engine.Op {
	if p.act.stitching {
		if got, ok := p.stitchAgain(p.act.attempt, out); ok {
			return got
		}
		return p.try(out)
	}
	return p.release(out)
}
