// Package index says what an engine's table of free bytes and of blocks has to answer.
//
// # The idea
//
// The engine decides; an Index knows what is free and where each block begins. A training process
// has one in C (cshim/fast/index.h), from which its threads are served without entering Go.
// Replays, scripts and Go programs have the Model here. Of gaps of one size the lowest is taken, so
// both give the same answers: a fuzz test (cshim/internal/cindex) compares them.
//
//	arena    | block | gap | block | block | gap |      addresses that one stream's blocks lie in
//
// A heap is what one stream of one pool has: the arena 2h for its large requests, 2h+1 for its
// small ones. Nothing is known of an arena before bytes are given to it.
//
// # Invariants
//
//   - gaps of an arena are disjoint, do not touch, and hold no byte of its blocks;
//   - what is free and what is in blocks is counted, for each arena and in all.
package index

import (
	"iter"

	"stalloc/internal/mem"
)

// Unit counts 512 bytes: a place in the window, or a size.
type Unit int64

// PlaceBits is the width of a place: 2^33 units are 4 TiB. A size has the 31 bits that are left of
// a word.
const PlaceBits = 33

// Gap is free bytes [Lo, Hi) of an arena. Of no size: none.
type Gap struct{ Lo, Hi Unit }

// Size returns how many units are free.
func (g Gap) Size() Unit { return g.Hi - g.Lo }

// State says whose a block is.
type State uint8

const (
	Fast    State = iota // whoever has the lock may free it
	Kept                 // live, and only the engine may free it
	Pending              // freed, and other streams may still use it
)

// Block is a block that was handed out.
type Block struct {
	At, Size Unit
	Arena    uint32
	Step     uint32 // steps that had ended when it was put, as the index knows
	Slack    uint16 // bytes of it that were not asked for
	State    State
	// its addresses are not its arena's: what it occupies there is taken and given for itself
	InView bool
}

// ArenaStats are what an arena has.
type ArenaStats struct {
	Free Unit   // in gaps
	Load Unit   // in blocks, pending ones among them
	Peak Unit   // of Load
	Used uint32 // steps that had ended at the last Put or Drop
}

// Total is what all arenas have in blocks, and what was served.
type Total struct {
	Load, PeakLoad Unit // live
	Pending        Unit
	Blocks         int
	Steps          uint32 // that have ended
	// requests that were served without the engine: at their planned offsets, or from a gap
	Hits, Fits uint64
}

// Index is the table. The caller has the device's lock. What it takes is free, what it gives is
// not: an Index need not check.
type Index interface {
	// Fit returns the smallest gap that holds n units, the lowest of that size.
	Fit(arena uint32, n Unit) Gap
	// Gap returns the one that holds the unit at a place.
	Gap(arena uint32, at Unit) Gap
	// Gaps walks the gaps of an arena by (size, place). Nothing may change meanwhile.
	Gaps(arena uint32) iter.Seq[Gap]
	// Take and Give change what is free of an arena where no block begins or ends with it.
	Take(arena uint32, lo, hi Unit)
	Give(arena uint32, lo, hi Unit)
	// Put hands out a block, which takes its bytes unless it is in a view; Drop forgets the one at
	// a place, and gives them back.
	Put(b Block)
	Drop(at Unit)
	// Mark changes a block's state.
	Mark(at Unit, s State)
	// Block returns the block that begins at a place.
	Block(at Unit) (Block, bool)
	// Blocks walks all of them in no order.
	Blocks() iter.Seq[Block]
	// Room and Total return what is counted.
	Room(arena uint32) ArenaStats
	Total() Total
	// Assign begins the arenas of a heap, empty ones, for a stream of a pool. Requests of the
	// default pool, 0, may be served without the engine.
	Assign(heap uint32, stream mem.StreamID, pool uint64)
	// EndStep counts a step.
	EndStep()
}
