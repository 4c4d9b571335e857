package onerange

import (
	"maps"
	"slices"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// A waiter is what waits for a fence: a view, handles that are lent, or the block that begins at a
// place.
type waiter struct {
	view uint32
	lent []uint32
	at   unit
}

func (e *Engine) record(ev engine.Event, out []engine.Op) []engine.Op {
	b, ok := e.blockOf(ev.Addr)
	if !ok || b.State == index.Pending {
		return append(out, engine.Op{Kind: engine.OpUnknown, Addr: ev.Addr})
	}
	if e.heaps[heapAt(b.Arena)].stream == ev.Stream {
		return out
	}
	k := e.keep(b.At)
	if !slices.Contains(k.users, ev.Stream) {
		k.users = append(k.users, ev.Stream)
	}
	return out
}

// Keep has the end of the live block at addr be an event, whoever frees it.
func (e *Engine) Keep(addr mem.Addr) {
	if b, ok := e.blockOf(addr); ok {
		e.keep(b.At)
	}
}

// free gives a block back: at once, or after the fences of the other streams that
// used it. A fence after its view tells when the addresses may be mapped anew.
func (e *Engine) free(ev engine.Event, out []engine.Op) []engine.Op {
	b, ok := e.blockOf(ev.Addr)
	if !ok || b.State == index.Pending {
		return append(out, engine.Op{Kind: engine.OpUnknown, Addr: ev.Addr})
	}
	k := e.kept[b.At]
	if k == nil {
		e.dropBlock(b)
		return out
	}
	for _, id := range slices.Backward(k.users) {
		out = append(out, engine.Op{Kind: engine.OpFence, Stream: id,
			Fence: driver.Fence(e.newFence(waiter{at: b.At}))})
	}
	if k.fences = len(k.users); k.fences == 0 {
		e.dropBlock(b)
	} else {
		e.idx.Mark(b.At, index.Pending)
	}
	if k.view != 0 {
		v := &e.views[k.view]
		e.clean(k.view)
		v.dirty = true
		if e.heaps[heapAt(v.arena)].captured { // its addresses are never mapped anew
			return out
		}
		v.fence = e.newFence(waiter{view: k.view})
		out = append(out, engine.Op{Kind: engine.OpFence, Addr: e.addr(v.at),
			Stream: e.heaps[heapAt(v.arena)].stream, Fence: driver.Fence(v.fence)})
	}
	return out
}

func (e *Engine) newFence(of waiter) uint64 {
	e.fences++
	e.fenceOf[e.fences] = of
	return e.fences
}

// fence completes one fence, and the free of its block if it was the last.
func (e *Engine) fence(ev engine.Event, out []engine.Op) []engine.Op {
	of, ok := e.fenceOf[uint64(ev.Fence)]
	if !ok {
		return append(out, engine.Op{Kind: engine.OpUnknown, Fence: ev.Fence})
	}
	if of.view != 0 {
		e.clean(of.view)
		return out
	}
	if of.lent != nil {
		e.lendDone(uint64(ev.Fence))
		return out
	}
	e.pass(of.at, uint64(ev.Fence))
	return out
}

func (e *Engine) pass(at unit, fence uint64) {
	delete(e.fenceOf, fence)
	k := e.kept[at]
	if k.fences--; k.fences == 0 {
		b, _ := e.idx.Block(at)
		e.dropBlock(b)
	}
}

// passAll completes every fence: the device has been waited for.
func (e *Engine) passAll() {
	for x := 1; x < len(e.views); x++ {
		if v := &e.views[x]; v.arena != 0 && v.block == 0 && v.dirty {
			e.clean(uint32(x))
		}
	}
	for _, fence := range slices.Sorted(maps.Keys(e.fenceOf)) {
		switch of := e.fenceOf[fence]; {
		case of.lent != nil:
			e.lendDone(fence)
		case of.view == 0:
			e.pass(of.at, fence)
		}
	}
}
