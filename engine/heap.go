package engine

import "stalloc/internal/mem"

// unit counts mem.Grain: a size, a place inside a handle, or a place in the
// window counted from Config.Base. Half-open ranges of units are the only
// geometry the engine knows.
type unit uint64

const (
	pageShift = 12 // 4096 units of 512 bytes make a page of 2 MiB, one handle
	pageUnits = unit(mem.HandleSize / mem.Grain)
	pageMask  = pageUnits - 1
)

// The lists of views in a heap. Requests of at most Config.SmallLimit live in
// views of their own, so that a long-lived small block does not sit in the middle
// of a large run; the handles underneath are shared.
const (
	smallViews   = 0
	largeViews   = 1
	privateViews = 2 // of one large block each; see patch.go
	arenaViews   = 3 // of one arena each; see arena.go
)

// The two ends of a handle. Free units at an end can continue a block that lies
// in other handles; free units in the middle cannot.
const (
	prefix = 0
	suffix = 1
)

// A handle is one physical allocation. Its units are live, pending or free; which
// ones is recorded in the runs of every view that maps it. Here is only what the
// search needs without looking there.
//
//	used == 0              wholly free: on the heap's list of free handles
//	used > 0, edge[s] > 0  on the heap's list of handles with about so many free
//	                       units at end s
type handle struct {
	heap    uint32    // zero: the number is not in use
	alias   uint32    // the first page that maps it; zero: none
	aliases uint32    // pages that map it
	used    uint16    // occupied units, at most 4096
	edge    [2]uint16 // free units at each end
	big     uint16    // pages of big views that map it
	link    [2]links  // in the list of each end; link[prefix] also in that of free handles
}

type links struct{ next, prev uint32 }

// edgeList holds the partly used handles of a heap by their free units at one end, in
// classes of 32 units: a heap for each stream that there ever was has them, and a list for
// each number of units would be most of what a heap takes.
type edgeList struct {
	head [edgeClasses]uint32
	some [edgeClasses / 64]uint64
}

const (
	edgeShift   = 5
	edgeClasses = pageUnits >> edgeShift
)

// A heap is what one (stream, pool) owns: handles, and the free runs of its
// views. Memory freed here serves this heap at once and no other one.
type heap struct {
	stream mem.StreamID
	pool   uint64
	over   bool // a private pool that was trimmed: nobody will replay what was in it

	free      uint32 // wholly free handles, most recently freed first
	freeCount int
	handles   int

	edges [2]edgeList
	sizes [2]sizeIndex // free runs of the small and the large views
	views [4]uint32    // first view of each list
}

func heapKey(stream mem.StreamID, pool uint64) uint64 {
	return mix(uint64(stream)+1) ^ mix(pool^0x9e3779b97f4a7c15)
}

// heapFor returns the heap of a stream and pool, made if it is new.
func (e *Engine) heapFor(stream mem.StreamID, pool uint64) uint32 {
	key := heapKey(stream, pool)
	if x := e.heapAt.get(key); x != 0 {
		e.heaps[x].over = false
		return x
	}
	e.heaps = append(e.heaps, heap{stream: stream, pool: pool})
	x := uint32(len(e.heaps) - 1)
	e.heapAt.put(key, x)
	return x
}

// keeps reports whether what is free in heap x stays there: a graph that will be
// replayed remembers its addresses.
func (e *Engine) keeps(x uint32) bool { return e.heaps[x].pool != 0 && !e.heaps[x].over }

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
	e.handles[x] = handle{heap: h, edge: [2]uint16{uint16(pageUnits), uint16(pageUnits)}}
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
	if c.used == 0 && hi-lo < pageUnits {
		e.countFree(x, -1)
	}
	c.used += uint16(hi - lo)
	c.edge[prefix] = min(c.edge[prefix], uint16(lo))
	c.edge[suffix] = min(c.edge[suffix], uint16(pageUnits-hi))
	e.enlist(x)
}

// vacate records that units [lo, hi) of handle x are free again, and lie now in
// the free range [from, to) of the handle.
func (e *Engine) vacate(x uint32, lo, hi, from, to unit) {
	e.delist(x)
	c := &e.handles[x]
	c.used -= uint16(hi - lo)
	if from == 0 {
		c.edge[prefix] = uint16(to)
	}
	if to == pageUnits {
		c.edge[suffix] = uint16(pageUnits - from)
	}
	if c.used == 0 && hi-lo < pageUnits {
		e.countFree(x, +1)
	}
	e.enlist(x)
}

// countFree keeps, for every view of the handle's heap that maps it, the number
// of its wholly free pages. Handles taken or given as a whole are counted by the
// stretch, in countWhole.
func (e *Engine) countFree(x uint32, delta int) {
	for p := e.handles[x].alias; p != 0; p = e.pages[p].next {
		if v := &e.views[e.pages[p].view]; v.heap == e.handles[x].heap {
			v.free += delta
		}
	}
}
