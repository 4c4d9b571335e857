package offload

import (
	"errors"
	"slices"

	"stalloc/internal/mem"
	"stalloc/trace"
)

const (
	leastState = mem.MiB // a smaller state stays, as it does when it is offloaded
	nearEnd    = 5       // states are made in the last part of the first step, one in so many
	fewest     = 3       // steps: blocks are known to last by living through some
)

// states are the optimizer states of a recording.
type states struct {
	bytes  mem.Bytes // of those that can leave
	blocks int
	marked bool // the recording says where the optimizer begins; otherwise it is inferred
	after  int  // requests of the first step behind the states
}

// find recognises the states. It fails where there are none, or too few steps.
func find(t *trace.Trace) (states, error) {
	steps := t.Steps()
	if len(steps) < fewest {
		return states{}, errors.New("optimizer states are known by living through three steps or more: record more")
	}
	freed := make(map[int64]bool) // before the last step
	for _, e := range t.Events[:steps[len(steps)-1][0]] {
		if e.Kind == trace.FreeRequested {
			freed[e.ID] = true
		}
	}
	first := t.Events[steps[0][0]:steps[0][1]]
	s := states{marked: true}
	for _, step := range steps {
		s.marked = s.marked && optimizerMark(t.Events[step[0]:step[1]]) >= 0
	}
	if s.marked {
		first = first[optimizerMark(first):]
	} else {
		first, s.after = longestRun(first, freed)
	}
	for _, e := range first {
		if e.Kind == trace.Alloc && !freed[e.ID] && e.Size >= leastState {
			s.blocks, s.bytes = s.blocks+1, s.bytes+mem.Round(e.Size)
		}
	}
	if s.blocks == 0 {
		return s, errors.New("no optimizer states of 1 MiB or more are seen: none are made in a row at the end of the first step, and live on; record from the first step on")
	}
	return s, nil
}

// optimizerMark is the place of the last mark of the optimizer, or -1.
func optimizerMark(events []trace.Event) int {
	for i, e := range slices.Backward(events) {
		if e.Kind == trace.Mark && e.Mark == "optimizer" {
			return i
		}
	}
	return -1
}

// longestRun returns the events in a row, near the end, that request lasting blocks of the most
// bytes, and how many requests follow.
func longestRun(events []trace.Event, freed map[int64]bool) (run []trace.Event, after int) {
	requests := 0
	for _, e := range events {
		if e.Kind == trace.Alloc {
			requests++
		}
	}
	from, seen, sum, most := 0, 0, mem.Bytes(0), mem.Bytes(0)
	for i, e := range events {
		if e.Kind == trace.Alloc {
			seen++
		}
		if e.Kind != trace.Alloc || freed[e.ID] {
			from, sum = i+1, 0
			continue
		}
		sum += mem.Round(e.Size)
		if sum > most && (requests-seen)*nearEnd <= requests {
			most, run, after = sum, events[from:i+1], requests-seen
		}
	}
	return run, after
}

// begins is the place of the event of a step at which the optimizer begins.
func (s *states) begins(events []trace.Event) int {
	if s.marked {
		return min(optimizerMark(events)+1, len(events)-1)
	}
	last := len(events) - 1
	for left := s.after; left > 0 && last > 0; last-- {
		if events[last].Kind == trace.Alloc {
			if left--; left == 0 {
				return last
			}
		}
	}
	for last > 0 && events[last].Kind == trace.Mark {
		last--
	}
	return last
}
