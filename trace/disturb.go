package trace

import (
	"math/rand/v2"
	"slices"

	"stalloc/internal/mem"
)

// Disturb returns a copy of the trace with requests inserted and left out at
// random, each at half the rate: a rate of 0.01 changes one request in a hundred.
// Only the steps after the first are disturbed. A request that is left out takes
// its free along. An inserted one comes on the stream of the request after it; it
// has the size, and lives for as many events, as some block that begins and ends
// within the same step, but not beyond the step.
//
// The same trace, seed and rate give the same copy; without a rate it is equal to
// the trace.
func (t *Trace) Disturb(seed uint64, rate float64) *Trace {
	d := disturber{rng: rand.New(rand.NewPCG(seed, 0)), rate: rate, gone: make(map[int64]bool)}
	for i := range t.Events {
		d.next = max(d.next, t.Events[i].ID+1)
	}
	steps, from := t.Steps(), 0
	for _, step := range steps[min(1, len(steps)):] {
		for _, e := range t.Events[from:step[0]] {
			d.keep(e)
		}
		d.step(t.Events[step[0]:step[1]])
		from = step[1]
	}
	for _, e := range t.Events[from:] {
		d.keep(e)
	}
	out := *t
	out.Events = d.out
	return &out
}

type disturber struct {
	rng    *rand.Rand
	rate   float64
	gone   map[int64]bool // blocks left out
	next   int64          // an id that no block has
	ending []int64        // inserted blocks whose life is over
	out    []Event
}

// keep copies an event, unless it is about a block that was left out.
func (d *disturber) keep(e Event) {
	if e.Kind == Mark || e.Kind == EmptyCache || !d.gone[e.ID] {
		d.out = append(d.out, e)
	}
}

// span is what an inserted block takes from a recorded one.
type span struct {
	size   mem.Bytes
	events int
}

func (d *disturber) step(events []Event) {
	spans := spansOf(events)
	due := make(map[int][]int64) // inserted blocks, by the event before which they end
	micros := int64(0)
	for i, e := range events {
		d.ending = append(d.ending, due[i]...)
		// A free's two events stay together: what lies between them would say that
		// another stream had put it off.
		if e.Kind != FreeCompleted && e.Kind != Mark {
			micros = e.Micros
			d.end(len(d.out), micros)
		}
		if e.Kind == Alloc && len(spans) > 0 {
			switch p := d.rng.Float64(); {
			case p < d.rate/2:
				d.gone[e.ID] = true
			case p < d.rate:
				l := spans[d.rng.IntN(len(spans))]
				d.out = append(d.out, Event{Kind: Alloc, ID: d.next, Size: l.size, Stream: e.Stream,
					Micros: micros})
				until := min(i+1+l.events, len(events))
				due[until] = append(due[until], d.next)
				d.next++
			}
		}
		d.keep(e)
	}
	d.ending = append(d.ending, due[len(events)]...)
	last := len(d.out)
	for last > 0 && (d.out[last-1].Kind == Mark || d.out[last-1].Kind == FreeRequested) {
		last--
	}
	d.end(last, micros)
}

// end frees the blocks whose life is over, at a place in the copy.
func (d *disturber) end(at int, micros int64) {
	for _, id := range d.ending {
		d.out = slices.Insert(d.out, at,
			Event{Kind: FreeRequested, ID: id, Micros: micros}, Event{Kind: FreeCompleted, ID: id,
				Micros: micros})
		at += 2
	}
	d.ending = d.ending[:0]
}

// spansOf returns those of the blocks that begin and end within a step.
func spansOf(events []Event) (all []span) {
	begun := make(map[int64]int)
	size := make(map[int64]mem.Bytes)
	for i, e := range events {
		switch e.Kind {
		case Alloc:
			begun[e.ID], size[e.ID] = i, e.Size
		case FreeCompleted:
			if from, ok := begun[e.ID]; ok {
				all = append(all, span{size[e.ID], i - from})
			}
		}
	}
	return all
}
