package onerange

import (
	"math/bits"

	"stalloc/engine"
)

// Everything here weighs memory against the driver's time: memory that is held above the peak load
// is lost to the program, and the driver takes as long for a large handle as for a small one, to
// make it and each time that it is stitched.
//
//   - Handles are at most a Config.HandlePart-th of the load, from the first request on: a block in a
//     view loses at most one, and what several gaps lose at their ends are some.
//   - Memory is made for what lacks, rounded up to a growPart-th of a handle: without, rests of
//     2 MiB would be many; more would be held for good.
//   - A handle is no larger than that each gap may lose one before the device is full. Where that
//     comes to the smallest, what is free is made anew in those (here, and in limit.go).
//
// What other sizes cost was measured (docs: decision 5).

const growPart = 8

// What the driver takes to map a handle under a view, and to replace one there, in tenths of a
// microsecond (docs: costs). Only their ratio matters.
const (
	costMap  = 270
	costSwap = costMap + 165
)

// handleSize returns the size of the handles that an arena grows by, for a request of n units.
func (e *Engine) handleSize(s uint32, n unit) unit {
	if !isLarge(s) || e.short {
		return pageUnits
	}
	x := e.idx.Room(s)
	if e.heaps[heapAt(s)].lasting { // it may lend them
		x = e.idx.Room(e.mainArena())
	}
	return max(pageUnits, powerOf2(min(unitsOf(e.cfg.HandleMost), max(x.Peak, x.Load+n)/unit(e.cfg.HandlePart), e.spare(s))))
}

// spare returns what can still be made for each gap of an arena.
func (e *Engine) spare(s uint32) unit { return max(e.limit-e.held, 0) / unit(1+e.countGaps(s)) }

// growth returns how much to make for what lacks, in handles of a size: at most so many units, or no more
// than lacks.
func growth(lack, size, most unit) unit {
	step := max(size/growPart, pageUnits)
	if up := (lack + step - 1) / step * step; up <= most {
		return up
	}
	return pagesOf(lack)
}

// powerOf2 returns the largest power of two that is not above n.
func powerOf2(n unit) unit {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// boundary ends a step. If the device is nearly full by then, what is free goes back, to be made
// anew in the smallest handles.
func (e *Engine) boundary(out []engine.Op) []engine.Op {
	if e.short || e.spare(e.mainArena()) >= 2*pageUnits {
		return out
	}
	e.short = true
	return e.trim(engine.Event{}, out)
}

// mainArena returns the arena of the largest load.
func (e *Engine) mainArena() uint32 {
	main, peak := uint32(0), unit(0)
	for s := range e.allArenas() {
		if p := e.idx.Room(s).Peak; isLarge(s) && p > peak {
			main, peak = s, p
		}
	}
	return main
}
