package trace

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// lateShare is how much later than recorded a block dies at most, as a share of its step.
const lateShare = 0.01

// Late returns a copy of the trace in which that share of the blocks die later than recorded: of
// those that begin and end within the same step, after the first step. Requests come in the same
// order.
//
// The same trace, seed and rate give the same copy; without a rate it is equal to the trace.
func (t *Trace) Late(seed uint64, rate float64) *Trace {
	rng := rand.New(rand.NewPCG(seed, 1))
	out := *t
	out.Events = slices.Clone(t.Events)
	steps := t.Steps()
	for _, step := range steps[min(1, len(steps)):] {
		putOff(out.Events[step[0]:step[1]], rng, rate)
	}
	return &out
}

func putOff(events []Event, rng *rand.Rand, rate float64) {
	begun, by := make(map[int64]bool), make(map[int64]int)
	place := make([]int, len(events)) // twice where an event was, or between two
	order := make([]int, len(events))
	for i, e := range events {
		order[i], place[i] = i, 2*i
		switch {
		case e.Kind == Alloc:
			begun[e.ID] = true
		case e.Kind == FreeRequested && begun[e.ID] && rng.Float64() < rate:
			by[e.ID] = 1 + rng.IntN(int(lateShare*float64(len(events)))+1)
		}
		later := by[e.ID]
		if later == 0 || e.Kind == Mark || e.Kind == EmptyCache { // these two name no block
			continue
		}
		// A free's two events stay together: what lies between them would say that another stream
		// had put it off.
		if e.Kind == FreeCompleted && events[i-1].Kind == FreeRequested && events[i-1].ID == e.ID {
			place[i] = place[i-1]
			continue
		}
		to := min(i+later, len(events)-1)
		for to+1 < len(events) && events[to+1].Kind == FreeCompleted {
			to++
		}
		place[i] = 2*to + 1
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(place[a], place[b]) })
	was, now := slices.Clone(events), int64(0)
	for i, from := range order {
		events[i] = was[from]
		if events[i].Kind != Mark {
			now = max(now, events[i].Micros)
			events[i].Micros = now
		}
	}
}
