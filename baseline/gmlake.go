package baseline

import "stalloc/internal/mem"

// chunk is the unit of GMLake's large pool: one handle.
const chunk = mem.HandleSize

// GMLake simulates the allocator of that name: PyTorch's caching allocator whose
// large pool consists of 2 MiB chunks, so that free blocks which are not
// neighbours can be mapped behind each other at a second address.
//
// A pBlock is an ordinary block of the large pool. An sBlock is a stitched one:
// addresses of its own over chunks that belong to pBlocks. It is cached when it
// is freed, mapping and all, and may serve again whenever all its chunks happen
// to be free.
//
//	pBlocks   [ a: live ][ b: free    ][ c: live ]      [ d: free ]
//	sBlock    [ b b b b d d ]     idle; b and d may still be used by themselves
//
// The original keeps a free flag and a list of mappings for every chunk. Here a
// run of chunks with the same history is one atom (see gmlake_atoms.go), which
// gives the same results at a cost that depends on the number of stitches and
// not on the number of bytes. A chunk's free flag needs no place at all: it is
// free exactly when its pBlock is.
type GMLake struct {
	core
	atoms   []atom
	maps    []mapping
	stitchs []stitched
	ready   []set // idle sBlocks whose chunks are all free, by stream

	spareAtoms, spareMaps, spareStitchs []int32

	virtual mem.Bytes // addresses in sBlocks
	noted   []int32   // pBlocks an sBlock is being reused over
}

// stitched is what an sBlock has beside its block record.
type stitched struct {
	block   int32
	first   int32 // its mappings, in address order of the sBlock
	heldBy  int32 // first of the pBlocks in use under it while it is live
	chunks  int64
	free    int64 // chunks that are free
	used    int64 // leading chunks in use while it is live
	doomed  bool  // its memory was given back while it was live: drop it when freed
	isReady bool  // in a ready set
}

// NewGMLake makes the simulator. The options must be valid; New checks them.
func NewGMLake(o Options) *GMLake {
	g := new(GMLake)
	g.init("gmlake", o, g)
	g.opt.GCThreshold = 0
	return g
}

// Malloc rounds large requests to whole chunks, which PyTorch does not.
func (g *GMLake) Malloc(size mem.Bytes, stream mem.StreamID) (Block, error) {
	if size <= smallSize || size > maxRequest {
		return g.core.Malloc(size, stream)
	}
	rq := g.request(size, stream)
	rq.n = mem.RoundUp(rq.n, chunk)
	rq.segment = segmentSize(rq.n)
	return g.serve(rq)
}

// search: best fit among the pBlocks, then an idle sBlock, then a new stitch.
func (g *GMLake) search(rq request) int32 {
	if i := g.core.search(rq); i != none || rq.pool == smallPool {
		return i
	}
	if _, refused := g.pools[largePool].free[rq.stream].ceil(entry{size: rq.n}); !refused {
		if i := g.reuse(rq); i != none {
			return i
		}
	}
	return g.rescue(rq, 0)
}

// grow makes a segment of the large pool out of chunks with an address range of
// their own, all of them or none.
func (g *GMLake) grow(rq request) int32 {
	if rq.pool == smallPool {
		return g.core.grow(rq)
	}
	if !g.withinLimit(rq.segment) {
		return none
	}
	chunks := int64(rq.segment / chunk)
	g.calls.add(Reserve, rq.segment, 1)
	if !g.fits(rq.segment) {
		created := int64(max(g.opt.Capacity-g.stats.Physical, 0) / chunk)
		g.calls.add(Create, chunk, created+1)
		g.calls.add(Release, chunk, created)
		g.calls.add(AddressFree, rq.segment, 1)
		return none
	}
	g.calls.add(Create, chunk, chunks)
	g.mapChunks(chunks)
	i := g.newBlock()
	b := &g.blocks[i]
	b.addr, b.size, b.space = g.vm, rq.segment, VM
	b.pool, b.stream = largePool, rq.stream
	g.vm += mem.Offset(rq.segment)
	b.ext = g.newAtom(chunks)
	g.atoms[b.ext].owner = i
	g.stats.Segments++
	g.stats.grew(rq.segment)
	return i
}

// mapChunks counts the calls that map chunks: GMLake maps them one by one.
func (g *GMLake) mapChunks(n int64) {
	g.calls.add(Map, chunk, n)
	g.calls.add(SetAccess, chunk, n)
}

// handOut cuts a pBlock to the chunk. An sBlock is handed out whole.
func (g *GMLake) handOut(i int32, rq request) int32 {
	if !g.blocks[i].stitched {
		cut := rq.pool == largePool && rq.n < g.opt.MaxSplit && g.blocks[i].size-rq.n >= chunk ||
			rq.pool == smallPool && g.splits(g.blocks[i].size, rq)
		i = g.carve(i, rq.n, cut)
		g.stats.Active += g.blocks[i].size
		if rq.pool == largePool {
			g.take(i)
		}
	}
	g.blocks[i].charge = rq.n
	return i
}

// reclaim frees a block nothing waits for any more. The chunks of an sBlock are
// free once the pBlocks held under it are, which also tells whether the sBlock
// is ready again.
func (g *GMLake) reclaim(i int32) {
	b := &g.blocks[i]
	if !b.stitched {
		if b.pool == largePool {
			g.give(i)
		}
		g.core.reclaim(i)
		return
	}
	s := &g.stitchs[b.ext]
	g.stats.Requested -= b.asked
	b.state = idle
	b.used, b.deferred = false, false
	p := s.heldBy
	s.heldBy, s.used = none, 0
	if s.doomed {
		g.dropStitched(b.ext)
	} else {
		g.updateReady(b.ext)
	}
	for p != none {
		next := g.blocks[p].chain
		g.blocks[p].chain = none
		g.blocks[p].asked = 0
		g.give(p)
		g.core.reclaim(p)
		p = next
	}
}

func (g *GMLake) readySet(stream int32) *set {
	for int(stream) >= len(g.ready) {
		g.ready = append(g.ready, set{})
	}
	return &g.ready[stream]
}

// updateReady keeps the ready set what it says it is.
func (g *GMLake) updateReady(si int32) {
	s := &g.stitchs[si]
	b := &g.blocks[s.block]
	ready := b.state == idle && s.free == s.chunks
	if ready == s.isReady {
		return
	}
	s.isReady = ready
	if ready {
		g.readySet(b.stream).insert(entry{b.size, b.addr, s.block})
	} else if !g.readySet(b.stream).remove(b.size, b.addr) {
		panic("baseline: ready sBlock at " + Place{b.space, b.addr}.String() + " is not in its set")
	}
}
