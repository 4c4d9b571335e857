package onerange

import (
	"cmp"
	"iter"
	"slices"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// kept is what the engine knows of a block beside what the index does. While there is any, the
// index is told to leave the block to the engine. Its life: granted (live) → freed, and either
// gone at once or, if other streams have used it, pending until their fences have passed.
type kept struct {
	view   uint32         // in which it lies; 0: in its arena
	users  []mem.StreamID // others that used it
	fences int            // pending: fences still to pass
}

func (e *Engine) keep(at unit) *kept {
	k := e.kept[at]
	if k == nil {
		k = &kept{}
		e.kept[at] = k
		e.idx.Mark(at, index.Kept)
	}
	return k
}

// addBlock hands out n units at a place: in its arena, or through a view whose
// handles it occupies from the first on.
func (e *Engine) addBlock(s uint32, at, n unit, view uint32, asked mem.Bytes) {
	b := index.Block{At: at, Size: n, Arena: s, Slack: uint16(bytesOf(n) - asked),
		InView: view != 0}
	if e.heaps[heapAt(s)].pool != 0 {
		b.State = index.Kept
	}
	e.idx.Put(b)
	if view != 0 {
		e.keep(at).view = view
		e.views[view].block = at
		e.parts(view, at, n, func(lo, hi unit) { e.idx.Take(s, lo, hi) })
	}
}

// dropBlock gives a block's bytes back to its arena and forgets it. Its view stays.
func (e *Engine) dropBlock(b index.Block) {
	if k := e.kept[b.At]; k != nil && k.view != 0 {
		e.parts(k.view, b.At, b.Size, func(lo, hi unit) { e.idx.Give(b.Arena, lo, hi) })
		e.views[k.view].block = 0
	}
	delete(e.kept, b.At)
	e.idx.Drop(b.At)
}

func (e *Engine) blockOf(a mem.Addr) (index.Block, bool) {
	at, ok := e.place(a)
	if !ok {
		return index.Block{}, false
	}
	return e.idx.Block(at)
}

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

// Gaps calls do with every gap of a stream's arena, by address; with none of a tooFragmented one.
// The place of a handle that rests is one: the handle is back there when memory is needed.
func (e *Engine) Gaps(stream mem.StreamID, small bool, do func(engine.Range)) {
	s := e.arenaOf(stream, small)
	if e.tooFragmented(s) {
		return
	}
	gaps := slices.Collect(e.idx.Gaps(s))
	for x := range e.views {
		v := &e.views[x]
		if s != 0 && v.arena == s && v.isFormer() && e.handles[v.handles[0]].rests {
			gaps = append(gaps, index.Gap{Lo: v.at, Hi: v.at + v.size})
		}
	}
	slices.SortFunc(gaps, func(a, b index.Gap) int { return cmp.Compare(a.Lo, b.Lo) })
	for i, g := range gaps {
		if i+1 < len(gaps) && gaps[i+1].Lo == g.Hi {
			gaps[i+1].Lo = g.Lo
			continue
		}
		do(engine.Range{Addr: e.addr(g.Lo), Size: bytesOf(g.Size())})
	}
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
