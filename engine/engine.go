package engine

import (
	"fmt"

	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// Config says where the engine's addresses lie and how it chooses among them.
// Start from DefaultConfig.
type Config struct {
	Base   mem.Addr  // start of the reserved address window, a multiple of 2 MiB
	Window mem.Bytes // its size: at least 64 MiB, at most 4 TiB
	Limit  mem.Bytes // most physical memory to create; 0: what the device gives, up to 1 TiB

	SmallLimit mem.Bytes // requests up to this use views of their own
	Stitch     bool      // map free handles a second time before making new ones
	Sticky     bool      // prefer the address the same request had one step ago
	PatchPages int       // blocks stitched from so many pages get a view of their own; 0: none do
	Slack      float64   // make new handles instead of stitching while they stay below this share of the peak load
	First      float64   // what Slack is while the load has yet to grow
	Economy    float64   // what Slack becomes where every step stitches much of the memory
	MaxAliases int       // evict idle views once the mapped pages exceed this many times the handles

	aliasFloor int // mapped pages that are allowed in any case
}

// DefaultConfig returns the policy measured best on the recorded traces, with a
// window that suits any address.
func DefaultConfig() Config {
	return Config{
		Base:       1 << 40,
		Window:     4 * mem.TiB,
		SmallLimit: 100 * mem.KiB,
		Stitch:     true,
		Sticky:     true,
		Slack:      0.002,
		First:      0.06,
		Economy:    0.02,
		PatchPages: 64,
		MaxAliases: 16,
		aliasFloor: 1 << 12,
	}
}

const maxWindow = 4 * mem.TiB

// WithDefaults repairs values that no engine can work with: it has no one to
// report them to, and its callers read them from a checked configuration.
func (c Config) WithDefaults() Config {
	if c.Window <= 0 || c.Window > maxWindow {
		c.Window = maxWindow
	}
	c.Window = max(c.Window&^(mem.HandleSize-1), 64*mem.MiB)
	c.Base = (c.Base + mem.Addr(mem.HandleSize) - 1) &^ (mem.Addr(mem.HandleSize) - 1)
	c.SmallLimit = min(max(c.SmallLimit, 0), mem.HandleSize)
	c.Slack = min(max(c.Slack, 0), 0.5)
	c.First = min(max(c.First, 0), 0.5)
	c.Economy = min(max(c.Economy, 0), 0.5)
	c.MaxAliases = max(c.MaxAliases, 1)
	return c
}

// Engine is the state. Its zero value is not usable; see New.
type Engine struct {
	cfg     Config
	limit   int    // handles
	clock   uint64 // events so far
	slack   float64
	economy economy
	first   first

	pages   []page
	starts  pageBits
	extents extents

	runs     []run
	spareRun uint32

	handles      []handle
	spareHandles []uint32

	heaps  []heap
	heapAt table

	views      []view
	spareViews []uint32

	preparing []preparation

	blocks     []block
	spareBlock uint32
	blockAt    table // by start in units, plus one

	users   []user // streams that use a block besides its own
	spare   uint32
	fenceAt table // fence → block
	fences  uint64

	hints hints

	act      action
	limbo    limbo
	slots    []uint32       // pages that the batch maps
	picks    []uint32       // handles that the batch maps
	undo     []unmapped     // pages that the batch unmaps
	synced   []mem.StreamID // streams that the action has waited for
	unwaited []mem.StreamID // streams that it could not wait for
	gone     []released     // handles that the batch releases

	stats Stats
}

// New returns an engine that owns no memory yet.
func New(cfg Config) *Engine {
	cfg = cfg.WithDefaults()
	pages := int(cfg.Window / mem.HandleSize)
	e := &Engine{
		cfg:     cfg,
		slack:   cfg.Slack,
		starts:  newPageBits(pages + 1),
		extents: extents{next: 1, limit: uint32(pages)}, // page 0 stands for none
		pages:   make([]page, 2),
		runs:    make([]run, 1),
		handles: make([]handle, 1),
		heaps:   make([]heap, 1),
		views:   make([]view, 1),
		blocks:  make([]block, 1),
		users:   make([]user, 1),
		heapAt:  newTable(8),
		blockAt: newTable(1 << 10),
		fenceAt: newTable(1 << 6),
		hints:   newHints(),
	}
	e.SetLimit(0)
	return e
}

// Step takes one event, appends the ops that are now due to out, and returns it.
// What it appends is one batch: the runner does the ops in order and, before any
// other event, answers OpResume with EvResume or reports the first failure with
// EvFailed. Step allocates nothing once its tables have grown to the workload.
func (e *Engine) Step(ev Event, out []Op) []Op {
	e.clock++
	start := len(out)
	switch {
	case ev.Kind == EvFailed:
		out = e.failed(ev, out)
	case ev.Kind == EvResume:
		out = e.resume(ev, out)
	default:
		out = e.settle(out)
		out = e.dispatch(ev, out)
	}
	e.act.ops = len(out) - start
	if invariants.Enabled && e.clock&invariantsEvery == 0 {
		if err := e.Check(); err != nil {
			panic(fmt.Sprintf("engine: after event %d (kind %d): %v", e.clock, ev.Kind, err))
		}
	}
	return out
}

// invariantsEvery thins out the full recount: a power of two, minus one.
const invariantsEvery = 1<<10 - 1

func (e *Engine) dispatch(ev Event, out []Op) []Op {
	switch ev.Kind {
	case EvAlloc:
		return e.alloc(ev, out)
	case EvFree:
		return e.free(ev, out)
	case EvRecord:
		return e.record(ev, out)
	case EvFence:
		return e.fence(ev, out)
	case EvBoundary:
		return e.boundary(out)
	case EvPrepare:
		return e.prepare(ev, out)
	case EvFirst:
		e.first.over = true
		return out
	case EvDissolve:
		return e.dissolve(ev, out)
	case EvTrim:
		return e.trim(ev, out)
	}
	return append(out, Op{Kind: OpUnknown})
}
