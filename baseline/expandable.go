package baseline

import "stalloc/internal/mem"

// Expandable simulates PyTorch's caching allocator with expandable segments: a
// segment is a reservation of addresses larger than the device, of one stream
// and pool, that is mapped page by page as it is needed.
//
// A request no free block can serve extends free space into the unmapped space
// behind it, so only the shortfall is new memory:
//
//	live  free   unmapped …          n = free + one page and a bit
//	live [n          ]free unmapped  two pages mapped, the rest of them is free
//
// Pages go back only when the device is full and by EmptyCache, and only those
// that are wholly free; what is left of their block stays mapped on both sides.
type Expandable struct {
	core
	// unmapped blocks by pool and stream, in address order (all of size 0).
	holes [pools][]set
	// starts of the segments; block.ext is the index. Pages count from there:
	// a large segment need not start at a multiple of 20 MiB.
	starts []mem.Offset
}

// NewExpandable makes the simulator. The options must be valid; New checks them.
func NewExpandable(o Options) *Expandable {
	e := new(Expandable)
	e.init("expandable", o, e)
	e.expandable = true
	return e
}

// page is the unit of mapping: one handle.
func page(p poolID) mem.Bytes {
	if p == smallPool {
		return smallBuffer
	}
	return largeBuffer
}

// search starts at the best fit and walks on to larger blocks while the next
// would, counting the unmapped space behind it, be smaller. So the block that
// could grow without end is taken last. It is a walk to the next local minimum,
// not a search for the least, because PyTorch's is.
func (e *Expandable) search(rq request) int32 {
	ps := &e.pools[rq.pool]
	ps.searches++
	fs := &ps.free[rq.stream]
	cur, ok := fs.ceil(entry{size: rq.n})
	if !ok {
		return none
	}
	size := e.growable(fs.at(cur).block)
	for {
		next, ok := fs.next(cur)
		if !ok {
			break
		}
		nextSize := e.growable(fs.at(next).block)
		if nextSize >= size {
			break
		}
		cur, size = next, nextSize
	}
	return e.takeFree(fs, cur, rq)
}

// growable is the block's size and that of the unmapped space behind it.
func (e *Expandable) growable(i int32) mem.Bytes {
	b := &e.blocks[i]
	if b.next != none && e.blocks[b.next].state == unmapped {
		return b.size + e.blocks[b.next].size
	}
	return b.size
}

// handOut cuts at 512 bytes in both pools, whatever MaxSplit says.
func (e *Expandable) handOut(i int32, rq request) int32 {
	i = e.carve(i, rq.n, e.blocks[i].size-rq.n >= mem.Grain)
	e.stats.Active += e.blocks[i].size
	return i
}

// grow is try_allocate_expandable_block: the lowest run of free and unmapped
// blocks that is long enough becomes one mapped block.
func (e *Expandable) grow(rq request) int32 {
	if !e.withinLimit(rq.segment) {
		return none
	}
	i := e.findRun(rq)
	if i == none {
		i = e.reserve(rq)
	}
	if e.blocks[i].state == unmapped {
		if i = e.mapFront(i, min(e.blocks[i].size, rq.n)); i == none {
			return none
		}
	}
	for e.blocks[i].size < rq.n {
		// Whatever ends a free block inside the run is unmapped: two free
		// neighbours would have merged.
		hole := e.blocks[i].next
		if i = e.mapFront(hole, min(rq.n-e.blocks[i].size, e.blocks[hole].size)); i == none {
			return none
		}
	}
	e.removeFree(i)
	return i
}

// findRun returns the first block of the lowest run of free and unmapped blocks
// that adds up to the request, or none.
func (e *Expandable) findRun(rq request) int32 {
	hs := e.holeSet(rq.pool, rq.stream)
	for cur, ok := hs.first(); ok; cur, ok = hs.next(cur) {
		start := hs.at(cur).block
		if p := e.blocks[start].prev; p != none && e.blocks[p].state == free {
			start = p
		}
		var sum mem.Bytes
		for i := start; i != none; i = e.blocks[i].next {
			b := &e.blocks[i]
			if b.state != free && b.state != unmapped {
				break
			}
			if sum += b.size; sum >= rq.n {
				return start
			}
		}
	}
	return none
}

// reserve makes a new segment: one unmapped block an eighth larger than the
// device. It stays even if mapping then fails.
func (e *Expandable) reserve(rq request) int32 {
	i := e.newBlock()
	b := &e.blocks[i]
	unit := page(rq.pool)
	b.size = (e.opt.Capacity + e.opt.Capacity/8 + unit - 1) / unit * unit
	if b.size < rq.n {
		// A request larger than any device gets addresses too, so that it fails
		// for want of memory, as it would for want of addresses.
		b.size = (rq.n + unit - 1) / unit * unit
	}
	b.addr, b.space = e.vm, VM
	b.pool, b.stream = rq.pool, rq.stream
	b.ext = int32(len(e.starts))
	e.starts = append(e.starts, e.vm)
	e.vm += mem.Offset(b.size)
	e.calls.add(Reserve, b.size, 1)
	e.insertHole(i)
	return i
}

func (e *Expandable) holeSet(p poolID, stream int32) *set {
	for int(stream) >= len(e.holes[p]) {
		e.holes[p] = append(e.holes[p], set{})
	}
	return &e.holes[p][stream]
}

func (e *Expandable) insertHole(i int32) {
	b := &e.blocks[i]
	b.state = unmapped
	e.holeSet(b.pool, b.stream).insert(entry{addr: b.addr, block: i})
}

func (e *Expandable) removeHole(i int32) {
	b := &e.blocks[i]
	if !e.holeSet(b.pool, b.stream).remove(0, b.addr) {
		panic("baseline: unmapped block at " + Place{b.space, b.addr}.String() +
			" is not in its set")
	}
}
