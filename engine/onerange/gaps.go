package onerange

import (
	"cmp"
	"iter"
	"slices"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// isFree reports whether all of [lo, hi) is free in one gap of an arena.
func (e *Engine) isFree(s uint32, lo, hi unit) bool { return e.idx.Gap(s, lo).Hi >= hi }

// whole yields the wholly free handles of an arena, those in the smallest gaps first.
func (e *Engine) whole(s uint32) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for g := range e.idx.Gaps(s) {
			for at := pagesOf(g.Lo); at < g.Hi; {
				h := e.pages[at/pageUnits]
				c := &e.handles[h]
				if at = c.at + c.size; c.at >= g.Lo && at <= g.Hi && !yield(h) {
					return
				}
			}
		}
	}
}

func (e *Engine) freeHandles(s uint32) (n unit) {
	for h := range e.whole(s) {
		n += e.handles[h].size
	}
	return n
}

// Gaps calls do with every gap of a stream's arena, by address; with none of an arena that is too
// fragmented. The place of a handle that rests is one, too.
func (e *Engine) Gaps(stream mem.StreamID, small bool, do func(engine.Range)) {
	s := e.arenaOf(stream, small)
	if e.tooFragmented(s) {
		return
	}
	for _, g := range e.gapsOnceRisen(s) {
		do(engine.Range{Addr: e.addr(g.Lo), Size: bytesOf(g.Size())})
	}
}

// isFreeOnceRisen reports whether all of [lo, hi) is free in an arena, or a place of handles that
// rest.
func (e *Engine) isFreeOnceRisen(s uint32, lo, hi unit) bool {
	return slices.ContainsFunc(e.gapsOnceRisen(s),
		func(g index.Gap) bool { return g.Lo <= lo && g.Hi >= hi })
}

// gapsOnceRisen returns the gaps of an arena with the places of handles that rest, by address. Such
// a handle is back there when memory is needed.
func (e *Engine) gapsOnceRisen(s uint32) []index.Gap {
	gaps := slices.Collect(e.idx.Gaps(s))
	for x := range e.views {
		v := &e.views[x]
		if s != 0 && v.arena == s && v.isFormer() && e.handles[v.handles[0]].rests {
			gaps = append(gaps, index.Gap{Lo: v.at, Hi: v.at + v.size})
		}
	}
	slices.SortFunc(gaps, func(a, b index.Gap) int { return cmp.Compare(a.Lo, b.Lo) })
	joined := gaps[:0]
	for _, g := range gaps {
		if last := len(joined) - 1; last >= 0 && joined[last].Hi == g.Lo {
			joined[last].Hi = g.Hi
		} else {
			joined = append(joined, g)
		}
	}
	return joined
}

func (e *Engine) arenaOf(id mem.StreamID, ofSmall bool) uint32 {
	h := e.heapOfKey[heapKey{stream: id}]
	if ofSmall {
		return small(h)
	}
	return large(h)
}

// mostGaps is how many gaps a request or the end of a step walks at a time, a dozen times at most.
// Recordings have 700; a walk of so many takes a tenth of a millisecond, under the lock.
const mostGaps = 1 << 12

// mostLooked is how many handles under idle views are looked at for one that serves: a recorded
// pipeline of 55 GiB needs more than half as many.
const mostLooked = 1 << 16

// tooFragmented reports whether an arena has more gaps than that. Nothing is stitched or planned in
// it while the device has memory: it grows.
func (e *Engine) tooFragmented(s uint32) bool {
	n := 0
	for range e.idx.Gaps(s) {
		if n++; n > mostGaps {
			return true
		}
	}
	return false
}

// roomy reports whether as much can be made as the request needs.
func (e *Engine) roomy() bool { return !e.act.createFailed && e.held+pagesOf(e.act.n) <= e.limit }
