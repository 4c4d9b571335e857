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
		return append(out, engine.Op{Kind: engine.OpUnknown})
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

// Keep leaves the free of the live block at addr to the engine: the fast path must not serve it.
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
		return append(out, engine.Op{Kind: engine.OpUnknown})
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
		if e.isCaptured(v.arena) { // its addresses are never mapped anew
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

// pass completes a fence, and the free of its block if it was the last.
func (e *Engine) pass(fence uint64) {
	of := e.fenceOf[fence]
	delete(e.fenceOf, fence)
	switch {
	case of.view != 0:
		e.clean(of.view)
	case of.lent != nil:
		e.lentPending -= e.units(of.lent)
		e.unmapped = append(e.unmapped, of.lent...)
	default:
		k := e.kept[of.at]
		if k.fences--; k.fences == 0 {
			b, _ := e.idx.Block(of.at)
			e.dropBlock(b)
		}
	}
}

// passAll completes every fence: the device has been waited for.
func (e *Engine) passAll() {
	for _, fence := range slices.Sorted(maps.Keys(e.fenceOf)) {
		e.pass(fence)
	}
	for x := range e.views { // those of graphs have no fences
		e.views[x].dirty = false
	}
}
