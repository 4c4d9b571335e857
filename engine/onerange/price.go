package onerange

import (
	"math/bits"

	"stalloc/engine"
)

// Everything here weighs memory against the driver's time: memory that is held above the peak load
// is lost to the program, and the driver takes as long for a large handle as for a small one, to
// make it and each time that it is stitched.
//
//   - Handles are at most one Config.HandlePart-th of the load, from the first request on: a block
//     in a view loses at most one, and several gaps lose some at their ends.
//   - They are at most handleBlocks times as large as the mean block: where blocks are small and many,
//     each handle holds some, and is broken as long as one of them lives.
//   - The shortfall of a request is rounded up to a Config.GrowPart-th of a handle. Unrounded,
//     there would be many small handles, with driver calls for each; what is made beyond the
//     shortfall is held for good.
//   - A region that the program names moves handle by handle, and lends its memory to everything
//     else. So it grows by whole handles, whose size follows all that is live, not the region
//     alone. None is larger than the region.
//   - A block that is requested again a little larger, as by a cache that grows, costs driver time
//     only for what it has grown by. If the view of a block that has just ended would serve at less
//     than a regrowShare-th of a new view's cost, were its work done and a page more free, the new
//     view is made of whole handles. So it shares none, and can be extended. That wastes at most
//     the rest of a handle for each block, and only for blocks that do not fit there.
//   - A program that gives its memory back step after step pays for it anew each time: its handles
//     may be trimHandleScale times as large, by the load's peak, and what was held before comes
//     back in whole ones. Not if less than one trimSpareShare-th of the limit was left: such a
//     program gives memory back because it is short.
//
// What other sizes cost was measured (docs: decision 5).

const (
	handleBlocks    = 3
	regrowShare     = 8
	trimHandleScale = 4
	trimStepsApart  = 2 // between two trims
	trimsInARow     = 3 // one after the other
	trimSpareShare  = 16
)

// trims is when the program gave memory back.
type trims struct {
	step uint32 // of the last
	row  int    // the last so many lay at most trimStepsApart apart, in different steps
}

func (t *trims) add(step uint32) {
	switch apart := step - t.step; {
	case t.row == 0 || apart > trimStepsApart:
		t.row = 1
	case apart > 0:
		t.row++
	}
	t.step = step
}

// trimsRepeatedly reports whether the program gives memory back all the time, and has some to
// spare.
func (e *Engine) trimsRepeatedly() bool {
	if e.trims.row < trimsInARow || e.idx.Total().Steps-e.trims.step > trimStepsApart {
		return false
	}
	left := e.limit - e.limit/trimSpareShare
	for s := range e.allArenas() {
		left -= e.arenas[s].peakHeld
	}
	return left >= 0
}

// What the driver takes to map a handle under a view, and to replace one there, in tenths of a
// microsecond (internal/cost). Only their ratio matters.
const (
	costMap  = 270
	costSwap = costMap + 165
)

// handleSize returns the size of the handles that an arena grows by, for a request of n units.
func (e *Engine) handleSize(s uint32, n unit) unit {
	if !isLarge(s) {
		return pageUnits
	}
	x, t, most := e.idx.Room(s), e.idx.Total(), unitsOf(e.cfg.HandleMost)
	load := x.Load + n
	if e.isRegion(s) {
		load, most = t.Load+n, min(most, load)
	}
	if e.trimsRepeatedly() {
		load = trimHandleScale * max(load, x.Peak)
	} else {
		most = min(most, handleBlocks*(t.Load+n)/unit(t.Blocks+1))
	}
	return max(pageUnits, powerOf2(min(most, load/unit(e.cfg.HandlePart))))
}

// heldBefore returns how much may come back in whole handles to an arena.
func (e *Engine) heldBefore(s uint32) unit {
	if !e.trimsRepeatedly() {
		return 0
	}
	return e.arenas[s].peakHeld - e.arenas[s].held
}

// isRegion reports whether the program has named an arena's pool.
func (e *Engine) isRegion(s uint32) bool { return e.heaps[heapAt(s)].pool >= engine.FirstRegion }

func (e *Engine) growPart(s uint32) unit {
	if e.isRegion(s) {
		return 1
	}
	return unit(e.cfg.GrowPart)
}

// growth returns how much to make for a shortfall, in handles of a size: whole ones, if that is not
// more than was held before, or else parts of one. Where that is more than the room, or than the
// driver had (request.unrounded), the shortfall is rounded up to the next page alone.
func growth(missing, size, part, before, room unit) unit {
	if up := roundUp(missing, size); up <= min(before, room) {
		return up
	}
	if up := roundUp(missing, pagesOf(size/part)); up <= room {
		return up
	}
	return pagesOf(missing)
}

func roundUp(n, step unit) unit { return (n + step - 1) / step * step }

func powerOf2(n unit) unit {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}
