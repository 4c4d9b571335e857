package onerange

import (
	"fmt"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/invariants"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// Config says where the addresses lie and what memory may be spent on time. Start
// from DefaultConfig.
type Config struct {
	Base   mem.Addr  // start of the reserved address window, a multiple of 2 MiB
	Window mem.Bytes // its size: at least 64 MiB, at most 4 TiB
	Limit  mem.Bytes // most physical memory to create; 0: what the device gives

	SmallLimit mem.Bytes   // requests up to this have an arena of their own
	HandleMost mem.Bytes   // the largest handle, a power of two; 2 MiB: all are of one size
	HandlePart int         // a handle is at most such a part of the load
	GrowPart   int         // memory is made in such parts of a handle
	Without    without.Set // for measurements
}

// DefaultConfig returns the policy measured best on the recorded traces.
func DefaultConfig() Config {
	return Config{
		Base: 1 << 40, Window: maxWindow,
		SmallLimit: 64 * mem.KiB,
		HandleMost: 64 * mem.MiB, // up to here the driver takes no longer than for the smallest
		HandlePart: 384,
		GrowPart:   8,
	}
}

const maxWindow = 4 * mem.TiB

// withDefaults repairs values that no engine can work with: it has no one to
// report them to, and its callers read them from a checked configuration.
func (c Config) withDefaults() Config {
	if c.Window <= 0 || c.Window > maxWindow {
		c.Window = maxWindow
	}
	c.Window = max(c.Window&^(mem.HandleSize-1), 64*mem.MiB)
	c.Base = (c.Base + mem.Addr(mem.HandleSize) - 1) &^ (mem.Addr(mem.HandleSize) - 1)
	c.SmallLimit = min(max(c.SmallLimit, 0), mem.HandleSize)
	c.HandleMost = max(c.HandleMost, mem.HandleSize)
	c.HandlePart, c.GrowPart = max(c.HandlePart, 1), max(c.GrowPart, 1)
	if c.Without.Has(without.Small) {
		c.SmallLimit = 0
	}
	return c
}

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
	held    unit     // mapped
	most    unit     // that was mapped so far
	voids   []void   // by address, disjoint
	extents []extent // of the window
}

func (c *arena) hold(n unit) {
	c.held += n
	c.most = max(c.most, c.held)
}

type void struct{ lo, hi unit }

// A handle is one physical allocation of the driver.
type handle struct {
	arena   uint32 // 0: none, it is unmapped
	at      unit   // its place in the arena
	size    unit   // 0: the number is not used
	aliases int32  // views that map it
	epoch   uint64 // == Engine.epoch: already picked
	rests   bool   // its memory may be another's: it has no place, but former ones
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
	resting  []uint32 // lent to nobody, with former places
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
	pages := uint32(cfg.Window / mem.HandleSize)
	e := &Engine{
		cfg: cfg, idx: idx,
		window: addresses{next: 1, limit: pages}, // page 0 stands for none
		heapTable: heapTable{arenas: make([]arena, firstArena), heaps: make([]heap, 1),
			heapOfKey: map[heapKey]uint32{}, captured: map[uint64]bool{}},
		handleTable: handleTable{handles: make([]handle, 1)},
		viewTable:   viewTable{views: make([]view, 1)},
		fenceTable:  fenceTable{kept: map[unit]*kept{}, fenceOf: map[uint64]waiter{}},
	}
	e.SetLimit(0)
	return e
}

// Largest is the most that an engine holds, and so the most that a gap or a block can
// have: as many bits are left for a size beside a start.
const Largest = mem.Bytes(mostHeld) * mem.Grain

const mostHeld = unit(1)<<(64-index.PlaceBits) - pageUnits

// SetLimit bounds the physical memory that may be created from now on, within
// Config.Limit; zero goes back to that.
func (e *Engine) SetLimit(n mem.Bytes) {
	if n <= 0 || e.cfg.Limit > 0 && n > e.cfg.Limit {
		n = e.cfg.Limit
	}
	if e.limit = mostHeld; n > 0 {
		e.limit = min(unit(n/mem.Grain), mostHeld)
	}
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
		return e.fence(ev, out)
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

// Reserved returns the physical memory held.
func (e *Engine) Reserved() mem.Bytes { return bytesOf(e.held) }
