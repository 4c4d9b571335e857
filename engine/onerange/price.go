package onerange

import (
	"math/bits"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// Everything here weighs memory against the driver's time. Memory that is held above
// the peak load is lost to the program for good; a map is paid once, unless steps
// stitch anew, and then in every step. So:
//
//   - while little is known, in the first two steps, memory is tight: handles are as
//     small as the driver makes them, and a block without a gap is stitched;
//   - if the second step still paid for that more than Dear of its time, so will the
//     next ones. Then the memory is laid anew once, in handles of a 2048th of the peak
//     load, for which the driver takes hardly more each than for the smallest.
//
// The driver's time and the step's are measured by the runner (EvBoundary).

// A handle is at most a handlePart-th of the peak load: what a gap loses at its two
// ends is about one handle, and gaps are some tens.
const handlePart = 2048

// dearOver is how many steps the driver's share is averaged over.
const dearOver = 4

type price struct {
	first  bool    // the first step is over
	steps  int     // that have ended
	large  bool    // the memory has been laid anew
	handle unit    // of that size, if a plan of an earlier run says so; else 0
	share  float64 // of the driver in the time of the last steps
	// The most that had to be held: of the load, and of what waited for fences whenever
	// memory was short. What waits at other times is not asked about.
	peak mem.Bytes
}

// allowed returns how much may be held instead of stitching, once the request is
// served.
func (e *Engine) allowed() unit {
	slack := 0.0
	if !e.price.first {
		slack = e.cfg.First
	}
	e.price.peak = max(e.price.peak, e.stats.PeakLoad, e.stats.Load+e.stats.Pending+bytesOf(e.act.n))
	peak := unit(e.price.peak / mem.Grain)
	return min(peak+unit(float64(peak)*slack), e.limit)
}

// handleSize returns the size of the handles that a space grows by, for a request of
// n units.
func (e *Engine) handleSize(s *space, n unit) unit {
	if s.kind == smallSpace || !e.price.large {
		return pageUnits
	}
	if e.price.handle > 0 {
		return e.price.handle
	}
	return max(pageUnits, powerOf2(min(unitsOf(e.cfg.HandleMost), max(s.peak, s.load+n)/handlePart)))
}

// powerOf2 returns the largest power of two that is not above n.
func powerOf2(n unit) unit {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// A boundary behind which more than setupLoad of the peak load is live ends no step but
// the set-up.
const setupLoad = 0.9

// boundary ends a step.
func (e *Engine) boundary(ev engine.Event, out []engine.Op) []engine.Op {
	p := &e.price
	if p.steps == 0 && float64(e.stats.Load) >= setupLoad*float64(e.stats.PeakLoad) {
		return out
	}
	p.first = true
	p.steps++
	if ev.Took <= 0 {
		return out
	}
	share := float64(ev.Driver) / float64(ev.Took)
	if p.steps == rebuildAt {
		p.share = share
	} else {
		p.share += (share - p.share) / dearOver
	}
	if p.large || p.steps < rebuildAt || p.share <= e.cfg.Dear || !e.cfg.Stitch {
		return out
	}
	return e.rebuild(out)
}

// rebuild gives back what is free and makes as much of larger handles.
func (e *Engine) rebuild(out []engine.Op) []engine.Op {
	e.price.large = true
	main := 1
	for s := range e.spaces {
		if c := &e.spaces[s]; c.kind == largeSpace && c.peak > e.spaces[main].peak {
			main = s
		}
	}
	if e.handleSize(&e.spaces[main], 0) == pageUnits {
		return out // there are none that are larger
	}
	again := e.held
	out = e.trim(engine.Event{}, out)
	e.act.again, e.act.space = again, uint32(main)
	return out
}

// relay makes what a rebuild has given back anew.
func (e *Engine) relay(out []engine.Op) []engine.Op {
	lack := e.act.again - e.held
	e.act = action{space: e.act.space}
	if lack >= pageUnits {
		out, _ = e.growBy(lack, out)
	}
	return out
}

var rebuildAt = 2
