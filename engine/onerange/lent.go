package onerange

import (
	"slices"

	"stalloc/internal/mem"
)

// Between two events the engine's state may be lent to a quick case outside of it, which
// does what Step does for EvAlloc and EvFree where that takes no operation: a request that
// a gap serves, and its free (cshim/range.h, in C). Everything else is left to Step. A test
// holds the two together, array by array.

// Counters are what of the state lies in no array.
type Counters struct {
	Clock          uint64
	Load, PeakLoad int64
	Pending        int64
	PeakHeld       int64
	Blocks         int64
	Wished, Fits   uint64
	SpareGap       uint64
	SpareBlock     uint64
	GapN, BlockN   uint64 // lengths of the arrays that the borrower may lengthen
	Starts         uint64 // entries of the table
	Steps          uint64 // that have ended, which the borrower does not change
}

// Lent is the state as a borrower sees it. The arrays are the engine's own: they hold no
// pointers, and until TakeBack the borrower alone reads and writes them. Gaps and Blocks
// may be lengthened up to their capacity.
type Lent struct {
	Counters
	Base       mem.Addr
	SmallLimit mem.Bytes

	Gaps       []gap
	Spaces     []space
	Blocks     []block
	Heaps      []heap
	Starts     []uint64 // of blocks: where they begin << numberBits | number
	StartShift uint32   // of a hash
}

// lentRoom is how many blocks a borrower can always add.
const lentRoom = 128

// Lend shows the state to a borrower. False: an answer of the driver is awaited.
func (e *Engine) Lend(l *Lent) bool {
	if e.act.phase != phaseNone && e.act.phase != phaseRecord {
		return false
	}
	e.settle(nil)
	if want := e.stats.Blocks + 1 + lentRoom; want > cap(e.blocks) {
		e.blocks = slices.Grow(e.blocks, want+want/2-len(e.blocks))
	}
	// As many blocks fit into the other arrays. Between two gaps that follow each other
	// there is a block, or a cut: where a space ends, or a handle that is not there or that
	// a view's block has.
	most := cap(e.blocks) + len(e.spaces) + 2*len(e.handles) + len(e.views)
	e.gaps = slices.Grow(e.gaps, max(most-len(e.gaps), 0))
	e.blockAt.makeRoom(cap(e.blocks) - e.blockAt.used)
	l.Base, l.SmallLimit = e.cfg.Base, e.cfg.SmallLimit
	l.Gaps, l.Spaces, l.Blocks, l.Heaps = e.gaps, e.spaces, e.blocks, e.heaps
	l.Starts, l.StartShift = e.blockAt.cell, e.blockAt.shift
	l.Counters = Counters{
		Clock: e.clock, Load: int64(e.stats.Load), PeakLoad: int64(e.stats.PeakLoad),
		Pending: int64(e.stats.Pending), PeakHeld: int64(e.stats.PeakHeld), Blocks: int64(e.stats.Blocks),
		Wished: e.stats.Wished, Fits: e.stats.Fits,
		SpareGap: uint64(e.spareGap), SpareBlock: uint64(e.spareBlock),
		GapN: uint64(len(e.gaps)), BlockN: uint64(len(e.blocks)), Starts: uint64(e.blockAt.used), Steps: uint64(e.steps),
	}
	return true
}

// TakeBack ends the borrowing: c is what the borrower has made of the counters.
func (e *Engine) TakeBack(c *Counters) {
	e.clock = c.Clock
	e.stats.Load, e.stats.PeakLoad = mem.Bytes(c.Load), mem.Bytes(c.PeakLoad)
	e.stats.PeakHeld, e.stats.Blocks = mem.Bytes(c.PeakHeld), int(c.Blocks)
	e.stats.Wished, e.stats.Fits = c.Wished, c.Fits
	e.spareGap, e.spareBlock = uint32(c.SpareGap), uint32(c.SpareBlock)
	e.gaps, e.blocks = e.gaps[:c.GapN], e.blocks[:c.BlockN]
	e.blockAt.used = int(c.Starts)
}
