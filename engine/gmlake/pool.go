package gmlake

import (
	"fmt"
	"math"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// Pool is the state. Its zero value is not usable; see New.
type Pool struct {
	cfg   Config
	limit int    // handles; the largest int if there is no limit
	clock uint64 // events so far
	space addresses
	records
	handleTable
	late

	at        map[mem.Addr]int32 // live and pending blocks
	virtual   mem.Bytes          // addresses in sBlocks
	doomed    int                // sBlocks that are
	act       action
	chosen    []int32    // pBlocks a stitch or a reuse is about
	victims   []int32    // what the batch unmaps
	leftovers []leftover // what failed batches have mapped, and could not unmap

	stats engine.Stats
}

// records are numbered; what is not used any more is spare.
type records struct {
	blocks   []block
	segments []segment
	chunks   []chunk
	stitches []stitch
	heaps    []heap
	heapAt   map[heapKey]int32

	spareBlocks, spareSegments, spareChunks, spareStitches []int32
}

// handleTable holds the numbers of handles.
type handleTable struct {
	unmapped []engine.Index // that are in no chunk
	numbers  []engine.Index // free ones
	numbered engine.Index   // the highest in use so far
	picks    []engine.Index // that a segment is being made of
}

// late is what waits for other streams.
type late struct {
	fences    map[driver.Fence]int32 // the pending block that waits for it
	lastFence driver.Fence
	waiting   []int32 // pending blocks
}

// leftover is what a failed batch has mapped: handles at the first of so many pages.
type leftover struct {
	page    uint32
	pages   int
	handles []engine.Index
}

// heap is what one stream has in one pool of graphs, or in the default pool.
type heap struct {
	heapKey
	free  [2]set // by kind: large, small
	ready set    // sBlocks that can serve
	over  bool   // its pool was released: what is freed since goes with that of the default pool
}

type heapKey struct {
	stream mem.StreamID
	pool   uint64
}

// New returns a pool that owns no memory yet.
func New(cfg Config) *Pool {
	cfg = cfg.withDefaults()
	p := &Pool{
		cfg:     cfg,
		space:   addresses{limit: uint32(cfg.Window / pageSize)},
		records: records{heapAt: map[heapKey]int32{}},
		at:      map[mem.Addr]int32{},
		late:    late{fences: map[driver.Fence]int32{}},
	}
	p.SetLimit(0)
	return p
}

// SetLimit bounds the physical memory that may be created from now on, within
// Config.Limit; 0: that alone. What is held beyond it already stays.
func (p *Pool) SetLimit(limit mem.Bytes) {
	p.limit = math.MaxInt
	for _, most := range []mem.Bytes{limit, p.cfg.Limit} {
		if most > 0 {
			p.limit = min(p.limit, int(most/pageSize))
		}
	}
}

// Stats returns the counts as of the last event. Views are segments and sBlocks;
// Fits are requests served by a free pBlock, a small block or an sBlock that was
// there, Stitches those that made one.
func (p *Pool) Stats() engine.Stats {
	s := p.stats
	s.FreeHandles = len(p.unmapped)
	for h := range p.heaps {
		for k := range p.heaps[h].free {
			for _, e := range p.heaps[h].free[k].entries {
				s.FreeHandles += int(e.size / pageSize)
			}
		}
	}
	return s
}

// Reserved returns the physical memory that is held: the sizes of all handles.
func (p *Pool) Reserved() mem.Bytes { return mem.Bytes(p.stats.Handles) * pageSize }

// Step takes one event, appends the ops that are now due to out, and returns it.
// They are to be done in order; an answer holds if all before it have succeeded.
func (p *Pool) Step(ev engine.Event, out []engine.Op) []engine.Op {
	p.clock++
	start := len(out)
	if ev.Answers(p.act.phase != phaseNone) {
		out = p.answer(ev, out)
	} else {
		p.act = action{}
		out = p.dispatch(ev, out)
	}
	p.act.ops = 0
	for _, op := range out[start:] {
		if op.Kind < engine.OpResume {
			p.act.ops++
		}
	}
	if invariants.Enabled && p.clock&checkEvery == 0 && p.act.phase == phaseNone {
		if err := p.Check(); err != nil {
			panic(fmt.Sprintf("gmlake: after event %d (kind %d): %v", p.clock, ev.Kind, err))
		}
	}
	return out
}

// checkEvery thins out the full recount: a power of two, minus one.
const checkEvery = 1<<10 - 1

func (p *Pool) dispatch(ev engine.Event, out []engine.Op) []engine.Op {
	switch ev.Kind {
	case engine.EvAlloc:
		return p.alloc(ev, out)
	case engine.EvFree:
		return p.free(ev, out)
	case engine.EvUseStream:
		return p.record(ev, out)
	case engine.EvFence:
		return p.fence(ev, out)
	case engine.EvBoundary:
		return p.boundary(out)
	case engine.EvCapture: // all private pools are treated as if graphs used them
		return out
	case engine.EvTrim:
		p.act = action{sweeping: sweeping{pool: ev.Pool}}
		for h := range p.heaps {
			p.heaps[h].over = p.heaps[h].over || ev.Pool != 0 && p.meant(int32(h))
		}
		return p.sweep(sweepTrim, out)
	}
	return append(out, engine.Op{Kind: engine.OpUnknown})
}

func (p *Pool) heapOf(stream mem.StreamID, pool uint64) int32 {
	key := heapKey{stream, pool}
	h, ok := p.heapAt[key]
	if !ok {
		h = int32(len(p.heaps))
		p.heaps = append(p.heaps, heap{heapKey: key})
		p.heapAt[key] = h
	}
	p.heaps[h].over = false // the pool is used again
	return h
}

func (p *Pool) addr(page uint32) mem.Addr {
	return p.cfg.Base + mem.Addr(page)*mem.Addr(pageSize)
}

func (p *Pool) page(a mem.Addr) uint32 { return uint32((a - p.cfg.Base) / mem.Addr(pageSize)) }
