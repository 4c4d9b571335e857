package gmlake

import (
	"iter"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// What follows is asked of every policy. GMLake's algorithm knows no arenas, plans nothing and
// shares no index with the host, so that each request and each free is an event.

// Indexed: its blocks are in no index that a fast path could use.
func (p *Pool) Indexed() bool { return false }

// Keep changes nothing: each free is an event.
func (p *Pool) Keep(mem.Addr) {}

// Forget returns no stream: their heaps stay.
func (p *Pool) Forget(func(mem.StreamID) bool) []mem.StreamID { return nil }

// Streams returns none: nothing is planned for any.
func (p *Pool) Streams() []mem.StreamID { return nil }

// Ordinal is not asked for: nothing is logged.
func (p *Pool) Ordinal(mem.StreamID) uint16 { return 0 }

// Gaps calls do with none: there is no arena.
func (p *Pool) Gaps(mem.StreamID, bool, func(engine.Range)) {}

// Usage returns what live blocks are; in which step each was allocated is not known.
func (p *Pool) Usage() engine.Usage { return engine.Usage{} }

// LargestFree returns 0: any free chunks can be stitched.
func (p *Pool) LargestFree() mem.Bytes { return 0 }

// Lending is 0: nothing is lent.
func (p *Pool) Lending() mem.Bytes { return 0 }

// Blocks yields the live and pending blocks, in no order. Nothing may change meanwhile.
func (p *Pool) Blocks() iter.Seq[engine.Block] {
	return func(yield func(engine.Block) bool) {
		for at := range p.at {
			if x, _ := p.Lookup(at); !yield(x) {
				return
			}
		}
	}
}

// PlaceOf implements the pool's policy: its regions do not move, so nobody asks.
func (p *Pool) PlaceOf(engine.Index) mem.Addr { return 0 }

// HandlesOf returns the handles whose private pool is one of those that is says; an unmapped handle
// is the default pool's.
func (p *Pool) HandlesOf(is func(pool uint64) bool) (list []engine.Index) {
	seen := make([]bool, len(p.chunks))
	add := func(chunks []int32, heap int32) {
		for _, c := range chunks {
			if !seen[c] && is(p.heaps[heap].pool) {
				list = append(list, p.chunks[c].handle)
			}
			seen[c] = true
		}
	}
	for _, s := range p.segments {
		if s.first != none {
			add(s.chunks, p.blocks[s.first].heap)
		}
	}
	for _, s := range p.stitches { // whose segments may have gone
		if s.block != none {
			add(s.chunks, p.blocks[s.block].heap)
		}
	}
	if is(0) {
		list = append(list, p.unmapped...)
	}
	return list
}

// Regions returns the regions that have memory.
func (p *Pool) Regions() map[uint64]bool {
	held := map[uint64]bool{}
	p.HandlesOf(func(pool uint64) bool {
		if pool >= engine.FirstRegion {
			held[pool] = true
		}
		return false
	})
	return held
}
