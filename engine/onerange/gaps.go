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

func (e *Engine) freeHandles(s uint32) unit { return e.freeOf(s, every) }

// freeOf returns how much an arena has in wholly free handles for which may is true.
func (e *Engine) freeOf(s uint32, may func(h uint32) bool) (n unit) {
	for h := range e.whole(s) {
		if may(h) {
			n += e.handles[h].size
		}
	}
	return n
}

func every(uint32) bool { return true }

// Gaps calls do with every gap of a stream's arena, by address; with none of an arena that is too
// fragmented. The place of a handle that rests is one, too.
func (e *Engine) Gaps(stream mem.StreamID, ofSmall bool, do func(engine.Range)) {
	h := e.heapOfKey[heapKey{stream: stream}]
	s := large(h)
	if ofSmall {
		s = small(h)
	}
	if e.tooFragmented(s) {
		return
	}
	gaps := append(slices.Collect(e.idx.Gaps(s)), e.resting(s)...)
	slices.SortFunc(gaps, byPlace)
	for i, g := range gaps {
		if i+1 < len(gaps) && gaps[i+1].Lo == g.Hi {
			gaps[i+1].Lo = g.Lo
			continue
		}
		do(engine.Range{Addr: e.addr(g.Lo), Size: bytesOf(g.Size())})
	}
}

// isFreeOnceRisen reports whether all of [lo, hi) is free in an arena, or a place of handles that
// rest. It walks no gaps: an arena may have any number, and each request may come here.
func (e *Engine) isFreeOnceRisen(s uint32, lo, hi unit) bool {
	at := max(lo, e.idx.Gap(s, lo).Hi)
	if p := int(at / pageUnits); at < hi && p < len(e.pages) && e.pages[p] != 0 {
		return false // a block lies there
	}
	places := e.resting(s)
	slices.SortFunc(places, byPlace)
	for _, p := range places {
		if p.Lo <= at && at < p.Hi {
			at = max(p.Hi, e.idx.Gap(s, p.Hi).Hi)
		}
	}
	return at >= hi
}

// resting returns the places of an arena's handles that rest. Such a handle is back there when
// memory is needed.
func (e *Engine) resting(s uint32) (places []index.Gap) {
	for x := range e.views {
		if v := &e.views[x]; s != 0 && v.arena == s && e.rests(v) {
			places = append(places, index.Gap{Lo: v.at, Hi: v.at + v.size})
		}
	}
	return places
}

func byPlace(a, b index.Gap) int { return cmp.Compare(a.Lo, b.Lo) }

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
