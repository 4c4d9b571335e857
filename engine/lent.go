package engine

import (
	"slices"

	"stalloc/internal/mem"
)

// Between two events the engine's state may be lent to a quick case outside of it,
// which does exactly what Step does for EvAlloc and EvFree where that takes no
// operation: a request that a free run serves, and its free (cshim/pool.h, in C).
// Everything else, and everything for which an array would have to grow, is left
// to Step. A test holds the two together, array by array.

// Counters are what of the state lies in no array.
type Counters struct {
	Clock              uint64
	Load, PeakLoad     int64
	PeakHeld, Pending  int64
	Blocks             int64
	Sticky, Fits       uint64
	Epoch, Ordinals    uint64 // of the hints
	SpareRun           uint64
	SpareBlock         uint64
	RunN, BlockN       uint64 // lengths of the arrays that the borrower may lengthen
	HintN, CountN      uint64
	BlockUsed          uint64 // entries of the tables
	HintUsed, CountUse uint64
	Known, Follow      uint64 // see hints
}

// Lent is the state as a borrower sees it. The arrays are the engine's own: they
// hold no pointers, and until TakeBack the borrower alone reads and writes them.
// Runs, Blocks, Hints and Counts may be lengthened up to their capacity.
type Lent struct {
	Counters
	Base       mem.Addr
	SmallLimit mem.Bytes
	Most       unit // of a request that the borrower may serve
	Hinted     bool // requests have hints

	Pages     []page
	Starts    [][]uint64
	Runs      []run
	Handles   []handle
	Heaps     []heap
	Views     []view
	Blocks    []block
	Hints     []hint
	Counts    []counter
	HeapKeys  []uint64 // tables, as keys and values
	HeapVals  []uint32
	BlockKeys []uint64
	BlockVals []uint32
	HintKeys  []uint64
	HintVals  []uint32
	CountKeys []uint64
	CountVals []uint32
}

// lentRoom is how many elements a borrower can always add to an array before it
// must leave a request to Step.
const lentRoom = 128

// lentMost: larger blocks are left to Step, because the work grows with their pages,
// and so are those that may have private views.
const lentMost = 32 * pageUnits

// Lend shows the state to a borrower. False: the last action is not over, or there
// is nothing that could be borrowed.
func (e *Engine) Lend(l *Lent) bool {
	if e.act.waiting {
		return false
	}
	e.settle(nil)
	e.runs = slices.Grow(e.runs, lentRoom)
	e.blocks = slices.Grow(e.blocks, lentRoom)
	s := &e.hints
	s.list = slices.Grow(s.list, lentRoom)
	s.counts = slices.Grow(s.counts, lentRoom)
	for _, t := range []*table{&e.blockAt, &s.at, &s.countAt} {
		t.makeRoom(lentRoom)
	}
	l.Base, l.SmallLimit, l.Hinted = e.cfg.Base, e.cfg.SmallLimit, e.cfg.Sticky
	l.Most = lentMost
	if least := unit(e.cfg.PatchPages) * pageUnits; least > 0 {
		l.Most = min(l.Most, least-1)
	}
	l.Pages, l.Starts, l.Runs, l.Handles, l.Heaps = e.pages, e.starts.level, e.runs, e.handles, e.heaps
	l.Views, l.Blocks, l.Hints, l.Counts = e.views, e.blocks, s.list, s.counts
	l.HeapKeys, l.HeapVals = e.heapAt.key, e.heapAt.val
	l.BlockKeys, l.BlockVals = e.blockAt.key, e.blockAt.val
	l.HintKeys, l.HintVals = s.at.key, s.at.val
	l.CountKeys, l.CountVals = s.countAt.key, s.countAt.val
	l.Counters = Counters{
		Clock: e.clock, Load: int64(e.stats.Load), PeakLoad: int64(e.stats.PeakLoad),
		PeakHeld: int64(e.stats.PeakHeld), Pending: int64(e.stats.Pending), Blocks: int64(e.stats.Blocks),
		Sticky: e.stats.Sticky, Fits: e.stats.Fits, Epoch: s.epoch, Ordinals: uint64(s.ordinals),
		SpareRun: uint64(e.spareRun), SpareBlock: uint64(e.spareBlock),
		RunN: uint64(len(e.runs)), BlockN: uint64(len(e.blocks)), HintN: uint64(len(s.list)), CountN: uint64(len(s.counts)),
		BlockUsed: uint64(e.blockAt.used), HintUsed: uint64(s.at.used), CountUse: uint64(s.countAt.used),
		Known: uint64(s.known), Follow: uint64(s.follow),
	}
	return true
}

// TakeBack ends the borrowing: c is what the borrower has made of the counters.
func (e *Engine) TakeBack(c *Counters) {
	s := &e.hints
	e.clock = c.Clock
	e.stats.Load, e.stats.PeakLoad = mem.Bytes(c.Load), mem.Bytes(c.PeakLoad)
	e.stats.PeakHeld, e.stats.Blocks = mem.Bytes(c.PeakHeld), int(c.Blocks)
	e.stats.Sticky, e.stats.Fits = c.Sticky, c.Fits
	s.ordinals, s.known = int(c.Ordinals), int(c.Known)
	e.spareRun, e.spareBlock = uint32(c.SpareRun), uint32(c.SpareBlock)
	e.runs, e.blocks = e.runs[:c.RunN], e.blocks[:c.BlockN]
	s.list, s.counts = s.list[:c.HintN], s.counts[:c.CountN]
	e.blockAt.used, s.at.used, s.countAt.used = int(c.BlockUsed), int(c.HintUsed), int(c.CountUse)
}
