package onerange

import (
	"math/bits"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// Everything here weighs memory against the driver's time. Memory that is held above
// the peak load is lost to the program for good; a map is paid once, unless steps
// stitch anew, and then in every step. So:
//
//   - what is held exceeds the peak load only by what no view can make use of. To grow
//     instead of stitching, by half a percent or by two, was measured to cost as much
//     memory as it saves time;
//   - while little is known, in the first two steps, handles are half as large as the load calls
//     for, at most earlyMost. In the smallest handles memory takes twice as long to make, and to
//     rebuild; of twice earlyMost, what stays free beside blocks that live on breaks regular
//     steps' plans (docs: decision 5);
//   - if the second step still paid more than Dear of its time for stitching, so will
//     the next ones. Then the memory is rebuilt once, contiguous and in handles of a
//     handlePart-th of the peak load, for which the driver takes hardly more each than
//     for the smallest;
//   - if it did not, that is done later, when stitching has cost as much as it would: at worst
//     twice is paid what knowing the future would have cost;
//   - where memory is short, what is free is rebuilt in the smallest handles (limit.go).
//
// The driver's time and the step's are measured by the runner (EvBoundary).

// What the driver takes for a handle, in tenths of a microsecond (docs: costs). Only their
// ratios matter.
const (
	costCreate  = 93
	costMap     = 270
	costUnmap   = 165
	costRelease = 110
	costSwap    = costUnmap + costMap
)

// A handle is at most a handlePart-th of the peak load: a block in a view loses at most
// one, and what several gaps lose at their ends are some.
const handlePart = 512

// dearSurplus is the part of what is held that may be lost to streams which have not lent.
const dearSurplus = 100

// earlyMost is the largest handle of the first steps.
const earlyMost = 4 * mem.MiB

// rebuildAt is the step after which the memory is rebuilt if that seems to be worth it.
const rebuildAt = 2

type price struct {
	steps int          // that have ended
	large bool         // the memory has been rebuilt
	short bool         // there was not enough: handles stay small
	rent  int          // what stitching has cost in this step
	owed  int          // and in the steps after the one that the memory may be rebuilt after
	paid  float64      // for stitching, share of the last step's time
	was   engine.Stats // at the last boundary
}

// handleSize returns the size of the handles that an arena grows by, for a request of
// n units.
func (e *Engine) handleSize(s uint32, n unit) unit {
	switch size := e.largeSize(s, n); {
	case e.price.large:
		return size
	case e.price.short:
		return pageUnits
	default:
		return max(pageUnits, min(size/2, unitsOf(earlyMost)))
	}
}

// largeSize returns the size of large handles: no larger than that each gap may lose one
// before the device is full.
func (e *Engine) largeSize(s uint32, n unit) unit {
	if !isLarge(s) {
		return pageUnits
	}
	room := max(e.limit-e.held, 0) / unit(1+e.countGaps(s))
	x := e.idx.Room(s)
	if e.heaps[heapAt(s)].lasting { // it may lend them
		x = e.idx.Room(e.mainArena())
	}
	return max(pageUnits, powerOf2(min(unitsOf(e.cfg.HandleMost), max(x.Peak, x.Load+n)/handlePart, room)))
}

// powerOf2 returns the largest power of two that is not above n.
func powerOf2(n unit) unit {
	if n <= 0 {
		return 0
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

// A boundary after which more than setupLoad of the peak load is live ends no step but
// the set-up.
const setupLoad = 0.9

// boundary ends a step.
func (e *Engine) boundary(ev engine.Event, out []engine.Op) []engine.Op {
	p := &e.price
	if t := e.idx.Total(); p.steps == 0 && float64(t.Load) >= setupLoad*float64(t.PeakLoad) {
		return out
	}
	p.steps++
	if p.large && e.largeSize(e.mainArena(), 0) == pageUnits {
		p.large, p.short = false, true // the device is nearly full by now
		return e.trim(engine.Event{}, out)
	}
	p.measure(ev, &e.stats)
	if p.steps > rebuildAt {
		p.owed += p.rent
	}
	p.rent = 0
	switch {
	case p.steps < rebuildAt || p.large || p.short || e.cfg.Without.Has(without.Stitch|without.Rebuild):
	case p.steps == rebuildAt && (p.paid > e.cfg.Dear || e.surplus() > 0), p.owed > 0 && p.owed > e.rebuildCost():
		return e.rebuild(out)
	}
	return out
}

// measure splits what the driver took in a step: for stitching, and for all else.
func (p *price) measure(ev engine.Event, now *engine.Stats) {
	was := &p.was
	all := costCreate*(now.Creates-was.Creates) + costMap*(now.Maps-was.Maps) +
		costUnmap*(now.Unmaps-was.Unmaps) + costRelease*(now.Releases-was.Releases)
	p.was, p.paid = *now, 0
	if ev.Took > 0 && all > 0 {
		p.paid = float64(ev.Driver) / float64(ev.Took) * float64(p.rent) / float64(all)
	}
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

// rebuildCost returns what a rebuild would cost now.
func (e *Engine) rebuildCost() int {
	var free unit
	for s := range e.allArenas() {
		if e.crowded(s) {
			free += e.idx.Room(s).Free // at most
		} else {
			free += e.freeHandles(s)
		}
	}
	size := e.largeSize(e.mainArena(), 0)
	return int(free/pageUnits)*(costUnmap+costRelease) + int(free/size)*(costCreate+costMap)
}

// surplus is what is held because streams that could lend had not: they need it by turns. Zero: hardly
// anything.
func (e *Engine) surplus() unit {
	for h := range e.heaps {
		if e.heaps[h].lasting && e.arenas[large(uint32(h))].held > 0 && h != int(heapAt(e.mainArena())) {
			if over := e.held - e.idx.Total().PeakHeld; over > e.held/dearSurplus {
				return over / pageUnits * pageUnits
			}
		}
	}
	return 0
}

// rebuild gives back what is free and makes as much of larger handles, for each stream what it had.
func (e *Engine) rebuild(out []engine.Op) []engine.Op {
	main := e.mainArena()
	if e.largeSize(main, 0) == pageUnits {
		return out // there are none that are larger
	}
	e.price.large = true
	e.again = e.again[:0]
	for s := range e.arenas {
		e.again = append(e.again, e.arenas[s].held)
	}
	over := e.surplus()
	for h := range e.heaps {
		for _, s := range []uint32{main, large(uint32(h))} {
			if e.heaps[heapAt(s)].lasting {
				cut := min(over, e.again[s])
				e.again[s] -= cut
				over -= cut
			}
		}
	}
	return e.trim(engine.Event{}, out)
}

// relay makes what a rebuild has given back anew, arena by arena.
func (e *Engine) relay(out []engine.Op) []engine.Op {
	for n := len(e.again) - 1; n >= 0; n-- {
		s := uint32(n)
		lack := e.again[n] - e.arenas[s].held
		e.again = e.again[:n]
		e.act = action{arena: s}
		if lack < pageUnits {
			continue
		}
		if out, ok := e.growBy(lack, out); ok {
			return out
		}
	}
	e.act = action{}
	return out
}
