package onerange

import (
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

// addBlock hands out n units at a place: in its arena, or in a view over its handles.
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

// A view is a private address range of one block, over handles that lie apart in their arena. It
// stays mapped when its block is freed, for a later one.
type view struct {
	extent           // its addresses; inArena: of which the class says nothing
	arena   uint32   // 0: not used
	handles []uint32 // in order
	// in it: positions where nothing is mapped any more. Such a view is being dropped, and
	// keeps its handles until then.
	holes       []int
	size        unit   // of the handles together
	inArena     bool   // its addresses are its arena's own: what could not be unmapped there
	block       unit   // that lies in it, by where it begins; 0: idle
	fence       uint64 // after the last block's work, 0: passed or not recorded
	dirty       bool   // work may still use the addresses
	unmapFailed bool   // it could not be unmapped, and serves nobody
}

// parts calls do with what the n units of a block from at on are in its arena: the handles
// of the view from the first on, of which the block may leave the start out.
func (e *Engine) parts(x uint32, at, n unit, do func(lo, hi unit)) {
	skip := at - e.views[x].at
	for _, h := range e.views[x].handles {
		c := &e.handles[h]
		size := min(n, c.size-skip)
		do(c.at+skip, c.at+skip+size)
		if n -= size; n == 0 {
			return
		}
		skip = 0
	}
}

func (e *Engine) newView(v view, handles ...uint32) uint32 {
	x := uint32(len(e.views))
	if n := len(e.spareViews); n > 0 {
		x, e.spareViews = e.spareViews[n-1], e.spareViews[:n-1]
		v.handles = e.views[x].handles[:0]
	} else {
		e.views = append(e.views, view{})
	}
	for _, h := range handles {
		e.handles[h].aliases++
	}
	v.handles = append(v.handles, handles...)
	e.views[x] = v
	return x
}

// dropView forgets a view that is not mapped any more.
func (e *Engine) dropView(x uint32) {
	v := &e.views[x]
	for _, h := range v.handles {
		e.handles[h].aliases--
	}
	e.clean(x)
	e.stats.Mapped -= int(v.size / pageUnits)
	if v.inArena {
		e.addVoid(v.arena, v.at, v.at+v.size)
	} else {
		e.window.put(v.extent)
	}
	*v = view{handles: v.handles[:0]}
	e.spareViews = append(e.spareViews, x)
}

// clean notes that the work on a view's addresses has passed.
func (e *Engine) clean(x uint32) {
	v := &e.views[x]
	if v.fence != 0 {
		delete(e.fenceOf, v.fence)
	}
	v.fence, v.dirty = 0, false
}
