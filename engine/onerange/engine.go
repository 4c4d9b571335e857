package onerange

import (
	"fmt"
	"iter"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// A heap is what one stream of one pool has. Its free bytes serve nobody else until they
// are lent (lend.go), or the device has been waited for.
type heap struct {
	heapKey
	released   bool // stalloc_release_pool: its memory may serve anyone
	persistent bool // the stream is never destroyed
}

type heapKey struct {
	stream mem.StreamID
	pool   uint64
}

// large and small return the arenas of a heap; heapAt says whose an arena is.
func large(heap uint32) uint32   { return 2 * heap }
func small(heap uint32) uint32   { return 2*heap + 1 }
func heapAt(arena uint32) uint32 { return arena / 2 }
func isLarge(arena uint32) bool  { return arena%2 == 0 }

// firstArena is the first that is one: heaps are numbered from 1.
const firstArena = 2

// An arena is contiguous addresses over handles: mapped ones, of which the free bytes
// are gaps, and voids, where nothing is mapped. A heap has one for large and one for
// small requests. Gaps and blocks are in the index.
type arena struct {
	held     unit     // mapped
	peakHeld unit     // the most that was mapped so far
	voids    []void   // by address, disjoint
	extents  []extent // of the window
}

func (c *arena) hold(n unit) {
	c.held += n
	c.peakHeld = max(c.peakHeld, c.held)
}

type void struct{ lo, hi unit }

// A handle is one physical allocation of the driver.
type handle struct {
	arena   uint32 // 0: none, it is unmapped
	at      unit   // its place in the arena
	size    unit   // 0: the number is not used
	aliases int32  // views that map it
	epoch   uint64 // == Engine.epoch: already picked
	rests   bool   // lent to nobody: its memory may be another's, and its places are former ones
}

// Engine is the state. Its zero value is not usable; see New.
type Engine struct {
	cfg    Config
	idx    index.Index
	limit  unit   // mostHeld if there is no limit
	clock  uint64 // events that it was told of
	window addresses
	heapTable
	handleTable
	viewTable
	fenceTable

	act   action
	picks []uint32 // handles, or views, that the batch is about
	swaps []swap
	trims trims
	stats engine.Stats
}

// heapTable holds what streams and private pools have.
type heapTable struct {
	arenas     []arena
	heaps      []heap
	heapOfKey  map[heapKey]uint32
	captured   map[uint64]bool // private pools of which graphs may remember the addresses
	spareHeaps []uint32        // of streams and private pools that are gone
	maybeEmpty []uint32        // heaps that had, or were to have, memory
}

// handleTable holds the physical allocations.
type handleTable struct {
	handles  []handle
	freeIDs  []uint32 // of handles
	unmapped []uint32 // made for a request that failed: mapped at no place
	pages    []uint32 // page of the window → the handle whose place it is
	epoch    uint64   // of a choice among them
	held     unit     // their sizes
}

// viewTable holds the views.
type viewTable struct {
	views      []view
	spareViews []uint32
}

// fenceTable holds what waits for other streams.
type fenceTable struct {
	kept        map[unit]*kept // blocks of which there is more to know than the index does
	fenceOf     map[uint64]waiter
	fences      uint64 // so far
	lentPending unit   // lent, and still in use by their streams' work
}

// New returns an engine that owns no memory yet, over an empty index.
func New(cfg Config, idx index.Index) *Engine {
	cfg = cfg.withDefaults()
	e := &Engine{
		cfg: cfg, idx: idx,
		window: addresses{next: pageUnits, limit: unitsOf(cfg.Window)}, // place 0 stands for none
		heapTable: heapTable{arenas: make([]arena, firstArena), heaps: make([]heap, 1),
			heapOfKey: map[heapKey]uint32{}, captured: map[uint64]bool{}},
		handleTable: handleTable{handles: make([]handle, 1)},
		viewTable:   viewTable{views: make([]view, 1)},
		fenceTable:  fenceTable{kept: map[unit]*kept{}, fenceOf: map[uint64]waiter{}},
	}
	e.SetLimit(0)
	return e
}

// Step takes one event and appends the operations now due to out.
func (e *Engine) Step(ev engine.Event, out []engine.Op) []engine.Op {
	start := len(out)
	e.clock++
	if ev.Answers(e.act.phase != phaseNone) {
		out = e.answer(ev, out)
	} else {
		out = e.dispatch(ev, out)
	}
	if a := &e.act; a.phase != phaseNone {
		a.ops = len(out) - start
		if last := out[len(out)-1].Kind; last == engine.OpResume {
			a.ops--
		}
	}
	if invariants.Enabled && e.clock&checkEvery == 0 && e.act.phase == phaseNone {
		if err := e.Check(); err != nil {
			panic(fmt.Sprintf("onerange: after event %d (kind %d): %v", e.clock, ev.Kind, err))
		}
	}
	return out
}

const checkEvery = 1<<10 - 1

func (e *Engine) dispatch(ev engine.Event, out []engine.Op) []engine.Op {
	switch ev.Kind {
	case engine.EvAlloc:
		return e.alloc(ev, out)
	case engine.EvFree:
		return e.free(ev, out)
	case engine.EvUseStream:
		return e.record(ev, out)
	case engine.EvFence:
		if _, waits := e.fenceOf[uint64(ev.Fence)]; waits {
			e.pass(uint64(ev.Fence))
			return out
		}
	case engine.EvBoundary:
		e.idx.EndStep()
		return out
	case engine.EvTrim:
		return e.trim(ev, out)
	case engine.EvLend:
		return e.lendOut(ev, out)
	case engine.EvRise:
		return e.rise(ev, out)
	case engine.EvCapture:
		e.captured[ev.Pool] = true
		return out
	}
	return append(out, engine.Op{Kind: engine.OpUnknown})
}

// heapOf returns the heap of a request's stream and pool, made on first sight.
func (e *Engine) heapOf(ev *engine.Event) uint32 {
	key := heapKey{ev.Stream, ev.Pool}
	h, known := e.heapOfKey[key]
	if n := len(e.spareHeaps); !known && n > 0 {
		h = e.spareHeaps[n-1]
		e.spareHeaps = e.spareHeaps[:n-1]
	} else if !known {
		h = uint32(len(e.heaps))
		e.heaps = append(e.heaps, heap{})
		e.arenas = append(e.arenas, arena{}, arena{})
	}
	if !known {
		e.heapOfKey[key] = h
		e.idx.Assign(h, key.stream, key.pool)
	}
	e.heaps[h] = heap{heapKey: key, persistent: ev.Persistent}
	return h
}

// allArenas yields the arenas, in the order in which streams and pools were seen.
func (e *Engine) allArenas() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for s := uint32(firstArena); int(s) < len(e.arenas) && yield(s); s++ {
		}
	}
}

func (e *Engine) addr(at unit) mem.Addr { return e.cfg.Base + mem.Addr(bytesOf(at)) }

// place returns the place of an address, or false if no block can begin there.
func (e *Engine) place(a mem.Addr) (unit, bool) {
	if a < e.cfg.Base || (a-e.cfg.Base)%mem.Addr(mem.Grain) != 0 {
		return 0, false
	}
	return unit((a - e.cfg.Base) / mem.Addr(mem.Grain)), true
}

// setPlace makes a handle's place known by its pages; 0 forgets it.
func (e *Engine) setPlace(h uint32, at, size unit) {
	last := int((at + size) / pageUnits)
	for len(e.pages) < last {
		e.pages = append(e.pages, 0)
	}
	for p := int(at / pageUnits); p < last; p++ {
		e.pages[p] = h
	}
}
