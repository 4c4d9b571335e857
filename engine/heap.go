package engine

import (
	"math/bits"

	"stalloc/internal/mem"
)

// unit counts mem.Grain: a size, a place inside a handle, or a place in the
// window counted from Config.Base. Half-open ranges of units are the only
// geometry the engine knows.
type unit uint64

const (
	pageShift = 12 // 4096 units of 512 bytes make a page of 2 MiB, one handle
	pageUnits = unit(mem.HandleSize / mem.Grain)
	pageMask  = pageUnits - 1
)

// The two lists of views in a heap. Requests of at most Config.SmallLimit live in
// views of their own, so that a long-lived small block does not sit in the middle
// of a large run; the handles underneath are shared.
const (
	smallViews = 0
	largeViews = 1
)

// A handle is one physical allocation. Its bytes are live, pending or free; which
// ones is recorded in the runs of every view that maps it. Here is only what the
// search needs without looking there.
//
//	used == 0          wholly free: on the heap's list of free handles
//	0 < prefix, 0<used on the heap's list of prefixes of that length
type handle struct {
	heap       uint32 // zero: the number is not in use
	used       uint16 // occupied units, at most 4096
	prefix     uint16 // free units at the start
	alias      uint32 // the first page that maps it; zero: none
	next, prev uint32 // in the list the table above names
}

// A heap is what one (stream, pool) owns: handles, and the free runs of its
// views. Memory freed here serves this heap at once and no other one.
type heap struct {
	stream mem.StreamID
	pool   uint64

	free      uint32 // wholly free handles, most recently freed first
	freeCount int
	handles   int

	prefix     [pageUnits]uint32 // handles by the length of their free prefix
	prefixSome [pageUnits / 64]uint64

	sizes [2]sizeIndex // free runs of the small and the large views
	views [2]uint32    // first view of each list
}

func heapKey(stream mem.StreamID, pool uint64) uint64 {
	return mix(uint64(stream)+1) ^ mix(pool^0x9e3779b97f4a7c15)
}

// heapFor returns the heap of a stream and pool, made if it is new.
func (e *Engine) heapFor(stream mem.StreamID, pool uint64) uint32 {
	key := heapKey(stream, pool)
	if x := e.heapAt.get(key); x != 0 {
		return x
	}
	e.heaps = append(e.heaps, heap{stream: stream, pool: pool})
	x := uint32(len(e.heaps) - 1)
	e.heapAt.put(key, x)
	return x
}

// newHandle takes a number for a handle that OpCreate is about to make.
func (e *Engine) newHandle(h uint32) uint32 {
	var x uint32
	if n := len(e.spareHandles); n > 0 {
		x = e.spareHandles[n-1]
		e.spareHandles = e.spareHandles[:n-1]
	} else {
		e.handles = append(e.handles, handle{})
		x = uint32(len(e.handles) - 1)
	}
	e.reviveHandle(x, h)
	return x
}

// reviveHandle makes handle x a wholly free one of heap h, mapped nowhere.
func (e *Engine) reviveHandle(x, h uint32) {
	e.handles[x] = handle{heap: h, prefix: uint16(pageUnits)}
	e.heaps[h].handles++
	e.stats.Handles++
	e.stats.PeakHandles = max(e.stats.PeakHandles, e.stats.Handles)
	e.enlist(x)
}

// dropHandle forgets a handle that is wholly free and mapped nowhere.
func (e *Engine) dropHandle(x uint32) {
	e.delist(x)
	e.heaps[e.handles[x].heap].handles--
	e.handles[x] = handle{}
	e.spareHandles = append(e.spareHandles, x)
	e.stats.Handles--
}

// enlist puts a handle on the list its occupancy calls for.
func (e *Engine) enlist(x uint32) {
	c := &e.handles[x]
	h := &e.heaps[c.heap]
	head := &h.free
	switch {
	case c.used == 0:
		h.freeCount++
	case c.prefix > 0:
		head = &h.prefix[c.prefix]
		h.prefixSome[c.prefix>>6] |= 1 << (c.prefix & 63)
	default:
		return
	}
	c.prev, c.next = 0, *head
	if *head != 0 {
		e.handles[*head].prev = x
	}
	*head = x
}

// delist takes a handle off that list, before its occupancy changes.
func (e *Engine) delist(x uint32) {
	c := &e.handles[x]
	h := &e.heaps[c.heap]
	head := &h.free
	switch {
	case c.used == 0:
		h.freeCount--
	case c.prefix > 0:
		head = &h.prefix[c.prefix]
	default:
		return
	}
	if c.next != 0 {
		e.handles[c.next].prev = c.prev
	}
	if c.prev != 0 {
		e.handles[c.prev].next = c.next
		return
	}
	*head = c.next
	if c.used != 0 && c.next == 0 {
		h.prefixSome[c.prefix>>6] &^= 1 << (c.prefix & 63)
	}
}

// prefixFit returns the partly used handle with the shortest free prefix of at
// least n units that view does not map yet, or zero.
func (e *Engine) prefixFit(h uint32, n unit, view uint32) uint32 {
	hp := &e.heaps[h]
	for w := int(n >> 6); w < len(hp.prefixSome); w++ {
		word := hp.prefixSome[w]
		if w == int(n>>6) {
			word &= ^uint64(0) << (n & 63)
		}
		for ; word != 0; word &= word - 1 {
			x := hp.prefix[w<<6+bits.TrailingZeros64(word)]
			for ; x != 0; x = e.handles[x].next {
				if !e.maps(view, x) {
					return x
				}
			}
		}
	}
	return 0
}

// maps reports whether view maps handle x.
func (e *Engine) maps(view, x uint32) bool {
	if view == 0 {
		return false
	}
	for p := e.handles[x].alias; p != 0; p = e.pages[p].next {
		if e.pages[p].view == view {
			return true
		}
	}
	return false
}

// occupy records that units [lo, hi) of handle x, free until now, are taken.
func (e *Engine) occupy(x uint32, lo, hi unit) {
	e.delist(x)
	c := &e.handles[x]
	if c.used == 0 {
		e.countFree(x, -1)
	}
	c.used += uint16(hi - lo)
	if lo < unit(c.prefix) {
		c.prefix = uint16(lo)
	}
	e.enlist(x)
}

// vacate records that units [lo, hi) of handle x are free again, and that its
// free prefix is now prefix units long.
func (e *Engine) vacate(x uint32, lo, hi, prefix unit) {
	e.delist(x)
	c := &e.handles[x]
	c.used -= uint16(hi - lo)
	c.prefix = uint16(prefix)
	if c.used == 0 {
		e.countFree(x, +1)
	}
	e.enlist(x)
}

// countFree keeps, for every view of the handle's heap that maps it, the number
// of its wholly free pages.
func (e *Engine) countFree(x uint32, delta int) {
	for p := e.handles[x].alias; p != 0; p = e.pages[p].next {
		if v := &e.views[e.pages[p].view]; v.heap == e.handles[x].heap {
			v.free += delta
		}
	}
}
