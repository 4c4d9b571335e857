package gmlake

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// dissolve gives an arena back but for its first ev.Size bytes, which stay an
// arena. Blocks that live above become the pool's where they lie: the chunks that
// they touch form held pBlocks, free once the last block inside is. Nothing
// changes if the event names something else.
func (p *Pool) dissolve(ev engine.Event, out []engine.Op) []engine.Op {
	b, head, ok := p.dissolvable(ev)
	if !ok {
		return append(out, engine.Op{Kind: engine.OpUnknown})
	}
	heap := p.blocks[b].heap
	p.discharge(b)
	if head > 0 {
		rest := none
		if head < p.blocks[b].size {
			rest = p.split(b, head)
		}
		p.charge(b, head, 0, true)
		b = rest
	}
	for keep := ev.Keep; len(keep) > 0; {
		run := 1
		start, end := pageFloor(keep[0].Addr), pageCeil(keep[0])
		for run < len(keep) && pageFloor(keep[run].Addr) < end {
			end = pageCeil(keep[run])
			run++
		}
		if c := &p.blocks[b]; start > c.addr {
			u := p.split(b, mem.Bytes(start-c.addr))
			p.reclaim(b)
			b = u
		}
		rest := none
		if c := &p.blocks[b]; end < c.addr+mem.Addr(c.size) {
			rest = p.split(b, mem.Bytes(end-c.addr))
		}
		p.blocks[b].kids = run
		for _, r := range keep[:run] {
			size, less := r.Block()
			k := p.newBlock(kept, heap, r.Addr, size)
			p.blocks[k].parent = b
			p.charge(k, size, less, false)
		}
		b, keep = rest, keep[run:]
	}
	if b != none {
		p.reclaim(b)
	}
	return out
}

// dissolvable returns the arena's pBlock and how much of it stays an arena. It
// puts the blocks to keep in order.
func (p *Pool) dissolvable(ev engine.Event) (b int32, head mem.Bytes, ok bool) {
	if len(ev.Parts) != 1 || ev.Size < 0 { // arenas are never lengthened
		return none, 0, false
	}
	b, ok = p.at[ev.Parts[0]]
	if !ok || !p.blocks[b].whole || p.blocks[b].state != live || len(p.blocks[b].users) > 0 {
		return none, 0, false
	}
	c := &p.blocks[b]
	head = mem.RoundUp(ev.Size, pageSize)
	slices.SortFunc(ev.Keep, func(x, y engine.Range) int { return int(int64(x.Addr) - int64(y.Addr)) })
	at := c.addr + mem.Addr(head)
	for _, r := range ev.Keep {
		if r.Addr < at || r.Size < 0 || (r.Addr-c.addr)%mem.Addr(mem.Grain) != 0 {
			return none, 0, false
		}
		at = r.Addr + mem.Addr(mem.Round(r.Size))
	}
	return b, head, at <= c.addr+mem.Addr(c.size)
}

func pageFloor(a mem.Addr) mem.Addr { return a &^ (mem.Addr(pageSize) - 1) }

func pageCeil(r engine.Range) mem.Addr {
	return pageFloor(r.Addr + mem.Addr(mem.Round(r.Size)) + mem.Addr(pageSize) - 1)
}
