package paper

import (
	"fmt"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Steps is how many steps are profiled.
const Steps = 3

// Profile is what the first steps of a recorded run asked for. Set-up is a part of the first step.
type Profile struct {
	tr       *trace.Trace
	ignoring bool         // of streams
	stream   mem.StreamID // of the most requests
	requests []request    // up to the end of the last step
	ends     [Steps]int   // the events at which steps end
	modules  []int32      // by request of the whole recording, see tell; nil: none are known
}

// request is a block's. Times are numbers of events.
type request struct {
	size       mem.Bytes // asked for
	born, dead int       // never: dead is not before the end of the profile
	step       int
	setUp      bool
	stream     mem.StreamID
}

const never = 1 << 60

// Read makes the profile of a recording. An allocator that ignores streams, as the authors' does,
// uses memory again once its free is asked for, though another stream may still use it.
func Read(tr *trace.Trace, ignoreStreams bool) (*Profile, error) {
	steps := tr.Steps()
	if len(steps) < Steps {
		return nil, fmt.Errorf("%s has %d marked steps and the paper's profile takes %d: record more steps, with marks", tr.Name, len(steps), Steps)
	}
	p := &Profile{tr: tr, ignoring: ignoreStreams, stream: busiest(tr)}
	ended := trace.FreeCompleted
	if ignoreStreams {
		ended = trace.FreeRequested
	}
	for k := range p.ends {
		p.ends[k] = steps[k][1]
	}
	of := make(map[int64]int)
	for i := range tr.Events[:p.ends[Steps-1]] {
		switch e := &tr.Events[i]; e.Kind {
		case trace.Alloc:
			of[e.ID] = len(p.requests)
			p.requests = append(p.requests, request{size: e.Size, born: i, dead: never,
				step: p.step(i), setUp: i < steps[0][0], stream: e.Stream})
		case ended:
			p.requests[of[e.ID]].dead = i
		}
	}
	p.modules = p.tell()
	return p, nil
}

// busiest is the stream of the most requests.
func busiest(tr *trace.Trace) (most mem.StreamID) {
	count := make(map[mem.StreamID]int)
	for i := range tr.Events {
		if e := &tr.Events[i]; e.Kind == trace.Alloc {
			count[e.Stream]++
			if count[e.Stream] > count[most] {
				most = e.Stream
			}
		}
	}
	return most
}

// apart reports whether a stream's blocks take no memory of others'.
func (p *Profile) apart(stream mem.StreamID) bool { return !p.ignoring && stream != p.stream }

// step is the number of an event's step.
func (p *Profile) step(event int) int {
	k := 0
	for k < Steps-1 && event >= p.ends[k] {
		k++
	}
	return k
}

// static returns the requests of a step that have an ordinal, in order.
func (p *Profile) static(step int, modules []int32) (numbers []int) {
	for n := range p.requests {
		r := &p.requests[n]
		if r.step == step && r.size > cellSize && (modules == nil || modules[n] == outside) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// cells is how many requests that a cell serves live at once, at most.
func (p *Profile) cells() (most int64) {
	live := int64(0)
	deaths := make(map[int]bool)
	next := 0
	for i := range p.tr.Events[:p.ends[Steps-1]] {
		if next < len(p.requests) && p.requests[next].born == i {
			if r := &p.requests[next]; r.size > 0 && r.size <= cellSize &&
				!p.apart(r.stream) {
				live++
				deaths[r.dead] = true
			}
			next++
		}
		if deaths[i] {
			live--
		}
		most = max(most, live)
	}
	return most
}
