package onerange

import (
	"fmt"

	"stalloc/engine"
	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// Config says where the addresses lie and what memory may be spent on time. Start
// from DefaultConfig.
type Config struct {
	Base   mem.Addr  // start of the reserved address window, a multiple of 2 MiB
	Window mem.Bytes // its size: at least 64 MiB, at most 4 TiB
	Limit  mem.Bytes // most physical memory to create; 0: what the device gives

	SmallLimit mem.Bytes // requests up to this have a space of their own
	Stitch     bool      // map free handles a second time before making new ones
	HandleMost mem.Bytes // the largest handle, a power of two; 2 MiB: all are of one size
	Dear       float64   // lay the memory anew if stitching takes more than this share of the second step
}

// DefaultConfig returns the policy measured best on the recorded traces.
func DefaultConfig() Config {
	return Config{
		Base: 1 << 40, Window: maxWindow,
		SmallLimit: 64 * mem.KiB, Stitch: true,
		HandleMost: 16 * mem.MiB,
		Dear:       0.004,
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
	return c
}

// A heap is what one stream of one pool has. Its free bytes serve nobody else until
// its stream has been waited for.
type heap struct {
	stream mem.StreamID
	pool   uint64
	spaces [2]uint32
	over   bool // a private pool that nobody will use any more: what it has is anybody's
}

const (
	largeSpace = 0
	smallSpace = 1
)

// A space is contiguous addresses over handles: mapped ones, of which the free bytes
// are gaps, and voids, where nothing is mapped. A heap has one for large and one for
// small requests. It holds no pointers, so that C can be shown it (lent.go).
type space struct {
	heap     uint32
	kind     uint32
	free     gaps
	units    unit // of free
	held     unit // mapped
	load     unit // live and pending
	peak     unit // of load
	expected unit // where the blocks of a plan of an earlier run end, from the first address on
	first    link // of its gaps and blocks by address
	last     link
	// Raised by whatever takes bytes of the space, but for what a tape's quick case places
	// where the tape has it (cshim/tape.h).
	version uint64
}

type void struct{ lo, hi unit }

// A handle is one physical allocation of the driver.
type handle struct {
	space   uint32 // 0: none, a spare
	at      unit   // its place in the space
	size    unit   // 0: the number is not used
	aliases int32  // views that map it
	mark    uint64 // of the last choice it was part of
}

// Engine is the state. Its zero value is not usable; see New.
type Engine struct {
	cfg   Config
	limit unit   // mostHeld if there is no limit
	clock uint64 // events so far
	steps uint32 // that have ended
	price price

	window addresses

	gaps       []gap
	spareGap   uint32
	spaces     []space
	voids      [][]void   // by space: by address, disjoint
	extents    [][]extent // by space
	spareHeaps []uint32   // of private pools that are gone
	heaps      []heap
	heapAt     table

	handles []handle
	numbers []uint32 // of no handle
	spares  []uint32 // made for a request that failed: mapped at no place
	pages   []uint32 // page of the window → the handle whose place it is
	marks   uint64

	views      []view
	spareViews []uint32

	blocks     []block
	spareBlock uint32
	blockAt    starts
	users      []user
	spareUser  uint32
	fenceAt    table
	fences     uint64

	act                 action
	picks               []uint32
	swaps               []swap
	ops                 []engine.Op
	synced              []mem.StreamID // that the batch waits for, or the action has waited for
	unwaited, waitedFor []mem.StreamID

	held  unit
	stats engine.Stats
}

// New returns an engine that owns no memory yet.
func New(cfg Config) *Engine {
	cfg = cfg.withDefaults()
	pages := uint32(cfg.Window / mem.HandleSize)
	e := &Engine{
		cfg:    cfg,
		window: addresses{next: 1, limit: pages}, // page 0 stands for none
		gaps:   make([]gap, 1), spaces: make([]space, 1), voids: make([][]void, 1), extents: make([][]extent, 1), heaps: make([]heap, 1), handles: make([]handle, 1),
		views: make([]view, 1), blocks: make([]block, 1), users: make([]user, 1),
		heapAt: newTable(8), blockAt: newStarts(1 << 10), fenceAt: newTable(64),
	}
	e.SetLimit(0)
	return e
}

// Largest is the most that an engine holds, and so the most that a gap or a block can
// have: as many bits are left for a size beside a start.
const Largest = mem.Bytes(mostHeld) * mem.Grain

const mostHeld = unit(1)<<(64-startBits) - pageUnits

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
	if ev.Kind == engine.EvResume || ev.Kind == engine.EvFailed {
		out = e.answer(ev, out)
	} else {
		out = e.settle(out)
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
	case engine.EvRecord:
		return e.record(ev, out)
	case engine.EvFence:
		return e.fence(ev, out)
	case engine.EvExpect:
		return e.expect(ev, out)
	case engine.EvBoundary:
		e.steps++
		return e.boundary(ev, out)
	case engine.EvTrim:
		return e.trim(ev, out)
	}
	return append(out, engine.Op{Kind: engine.OpUnknown})
}

func heapKey(stream mem.StreamID, pool uint64) uint64 {
	return mix(uint64(stream)+1) ^ mix(pool+0x9e3779b97f4a7c15)
}

func (e *Engine) heapOf(stream mem.StreamID, pool uint64) uint32 {
	key := heapKey(stream, pool)
	h := e.heapAt.get(key)
	if n := len(e.spareHeaps); h == 0 && n > 0 {
		h = e.spareHeaps[n-1]
		e.spareHeaps = e.spareHeaps[:n-1]
		e.heaps[h].stream, e.heaps[h].pool = stream, pool
		e.heapAt.put(key, h)
	}
	e.heaps[h].over = false
	if h == 0 {
		h = uint32(len(e.heaps))
		s := uint32(len(e.spaces))
		e.heaps = append(e.heaps, heap{stream: stream, pool: pool, spaces: [2]uint32{s, s + 1}})
		e.spaces = append(e.spaces, space{heap: h, kind: largeSpace}, space{heap: h, kind: smallSpace})
		e.voids = append(e.voids, nil, nil)
		e.extents = append(e.extents, nil, nil)
		e.heapAt.put(key, h)
	}
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

// setHome makes a handle's place known by its pages; 0 forgets it.
func (e *Engine) setHome(h uint32, at, size unit) {
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
