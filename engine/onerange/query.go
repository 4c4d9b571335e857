package onerange

import (
	"iter"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// What callers ask, none of which changes anything.

// Lookup returns the live or pending block that starts at addr.
func (e *Engine) Lookup(addr mem.Addr) (engine.Block, bool) {
	b, ok := e.blockOf(addr)
	if !ok {
		return engine.Block{}, false
	}
	h := &e.heaps[heapAt(b.Arena)]
	return engine.Block{
		Addr: addr, Size: bytesOf(b.Size), Asked: bytesOf(b.Size) - mem.Bytes(b.Slack),
		Stream: h.stream, Pool: h.pool,
		Pending: b.State == index.Pending,
	}, true
}

// Blocks yields the live and pending blocks, in no order. Nothing may change meanwhile.
func (e *Engine) Blocks() iter.Seq[engine.Block] {
	return func(yield func(engine.Block) bool) {
		for b := range e.idx.Blocks() {
			if x, _ := e.Lookup(e.addr(b.At)); !yield(x) {
				return
			}
		}
	}
}

// HandlesOf returns the handles whose private pool is one of those that is says; an unmapped handle
// is the default pool's.
func (e *Engine) HandlesOf(is func(pool uint64) bool) (list []engine.Index) {
	for h, x := range e.handles {
		if x.size > 0 && !x.rests && is(e.heaps[heapAt(x.arena)].pool) {
			list = append(list, engine.Index(h))
		}
	}
	return list
}

// PlaceOf returns the address of a handle in its arena, 0 if it has none. There it is unmapped only
// after a wait for the device; in a view, once streams have done their work on the block.
func (e *Engine) PlaceOf(h engine.Index) mem.Addr {
	if x := &e.handles[h]; x.arena != 0 {
		return e.addr(x.at)
	}
	return 0
}

// Indexed: its blocks are in the index that the fast path uses.
func (e *Engine) Indexed() bool { return true }

// Stats returns the counts as of the last event.
func (e *Engine) Stats() engine.Stats {
	s, t := e.stats, e.idx.Total()
	s.Load, s.PeakLoad, s.Pending = bytesOf(t.Load), bytesOf(t.PeakLoad), bytesOf(t.Pending)
	s.Blocks, s.Hits, s.Fits = t.Blocks, s.Hits+t.Hits, s.Fits+t.Fits
	s.Handles = int(e.held / pageUnits)
	for x := range e.arenas {
		s.FreeHandles += int(e.idx.Room(uint32(x)).Free / pageUnits)
	}
	s.Views = len(e.views) - 1 - len(e.spareViews)
	return s
}

// LargestFree returns the size of the largest gap.
func (e *Engine) LargestFree() (n mem.Bytes) {
	for s := range e.arenas {
		for g := range e.idx.Gaps(uint32(s)) {
			n = max(n, bytesOf(g.Size()))
		}
	}
	return n
}

// Within returns the live or pending block that contains addr. It looks at all of them.
func (e *Engine) Within(addr mem.Addr) (engine.Block, bool) {
	at := unit((addr - e.cfg.Base) / mem.Addr(mem.Grain))
	for b := range e.idx.Blocks() {
		if addr >= e.cfg.Base && at >= b.At && at < b.At+b.Size {
			return e.Lookup(e.addr(b.At))
		}
	}
	return engine.Block{}, false
}

// Usage looks at all blocks and gaps, for whoever asks where the memory is.
func (e *Engine) Usage() engine.Usage {
	u := engine.Usage{Live: map[engine.Use]int{}, Steps: e.idx.Total().Steps,
		Whole: bytesOf(e.units(e.unmapped))}
	for b := range e.idx.Blocks() {
		if b.State != index.Pending {
			u.Live[engine.Use{Size: bytesOf(b.Size), Step: b.Step}]++
		}
	}
	for s := range e.allArenas() {
		if e.heaps[heapAt(s)].reclaimable() {
			u.Whole += bytesOf(e.freeHandles(s))
		} else {
			u.Private += bytesOf(e.idx.Room(s).Free)
		}
	}
	return u
}

// Ordinal returns the number by which a log of events names a stream: that of its heap
// outside private pools, zero if it has none or the number is too large.
func (e *Engine) Ordinal(id mem.StreamID) uint16 {
	if h := e.heapOfKey[heapKey{stream: id}]; h <= 1<<16-1 {
		return uint16(h)
	}
	return 0
}

// Streams returns the streams that had requests or frees outside private pools in the step that
// ended last, or since then.
func (e *Engine) Streams() (ids []mem.StreamID) {
	steps := e.idx.Total().Steps
	for h := uint32(1); int(h) < len(e.heaps); h++ {
		used := max(e.idx.Room(large(h)).Used, e.idx.Room(small(h)).Used)
		if x := &e.heaps[h]; x.pool == 0 && used+1 >= steps {
			ids = append(ids, x.stream)
		}
	}
	return ids
}

// Regions returns the private pools without graphs, regions among them, that have memory or may
// have had since a trim.
func (e *Engine) Regions() map[uint64]bool {
	all := map[uint64]bool{}
	for h := range e.heaps {
		if c := &e.heaps[h]; e.isUncaptured(c) {
			all[c.pool] = true
		}
	}
	return all
}

// Reserved returns the physical memory held.
func (e *Engine) Reserved() mem.Bytes { return bytesOf(e.held) }

// Lending returns what is lent and still in use by its streams' work.
func (e *Engine) Lending() mem.Bytes { return bytesOf(e.lentPending) }
