package plan

import (
	"errors"
	"fmt"
	"slices"

	"stalloc/internal/mem"
	"stalloc/plan/descent"
)

// Plan is what a run leaves for a later one of the same program: the steps that came again.
// The later run plans them anew, around the memory that it has by then. It is immutable once
// published.
type Plan struct {
	Steps []Step `json:"steps"`
}

// Step is what one kind of step asked for of the large requests of one stream.
type Step struct {
	Stream   int       `json:"stream"` // its place in the order of first requests
	Requests []Request `json:"requests"`
}

// Request is one request of a step and how long its block's bytes were taken, in events of
// the step.
type Request struct {
	Size mem.Bytes `json:"size"` // rounded
	From mem.Tick  `json:"from"`
	Free mem.Tick  `json:"free"` // when the program freed it; Never: it outlived the step
	// when its bytes were free: later than Free if other streams used them
	Done mem.Tick   `json:"done"`
	At   mem.Offset `json:"-"` // where it lay, from where the window begins
}

// Never is the end of a block that outlived the step.
const Never mem.Tick = -1

// Late reports whether other streams used one of the blocks behind its free.
func (s *Step) Late() bool {
	return slices.ContainsFunc(s.Requests, func(r Request) bool { return r.Free != r.Done })
}

// Buffers returns the requests as blocks to be placed; what outlives the step ends with it.
func (s *Step) Buffers(end mem.Tick) []descent.Buffer {
	buffers := make([]descent.Buffer, len(s.Requests))
	for i, r := range s.Requests {
		buffers[i] = descent.Buffer{Lower: r.From, Upper: r.Done, Size: r.Size}
		if r.Done == Never {
			buffers[i].Upper = end
		}
	}
	return buffers
}

// End returns the tick behind all of a step's events.
func (s *Step) End() (end mem.Tick) {
	for _, r := range s.Requests {
		end = max(end, r.From+1, r.Done+1)
	}
	return end
}

// Requests returns how many requests the plan knows.
func (p *Plan) Requests() (n int) {
	for i := range p.Steps {
		n += len(p.Steps[i].Requests)
	}
	return n
}

const (
	// maxRequests is twice what a step has at most. To serve as many takes 200 MiB.
	maxRequests = 1 << 20
	// maxBytes is more than a device has, and few enough that no sum over a plan overflows.
	maxBytes mem.Bytes = 1 << 42
	// maxSteps is far more than are kept of a program.
	maxSteps = 1 << 10
	// eventsEach is how many events a request has at most, and so how many ticks of a kept step it
	// stands for: it is made, freed and done.
	eventsEach = 3
)

// Validate reports the first thing that no plan may say.
func (p *Plan) Validate() error {
	if n := p.Requests(); n > maxRequests || len(p.Steps) > maxSteps {
		return fmt.Errorf("plan: %d requests in %d steps, expected at most %d and %d", n,
			len(p.Steps), maxRequests, maxSteps)
	}
	for i := range p.Steps {
		if err := p.Steps[i].validate(); err != nil {
			return fmt.Errorf("plan: step %d, stream %d: %w", i, p.Steps[i].Stream, err)
		}
	}
	return nil
}

func (s *Step) validate() error {
	if s.Stream < 0 {
		return errors.New("streams are numbered from 0")
	}
	last, most := mem.Tick(0), mem.Tick(eventsEach*len(s.Requests))
	for i, r := range s.Requests {
		switch {
		case r.Size <= 0 || r.Size > maxBytes || r.Size%mem.Grain != 0:
			return fmt.Errorf("request %d has %d bytes, expected a multiple of %d up to %d", i,
				r.Size, mem.Grain, int64(maxBytes))
		case r.From < last, r.From > most, r.Free > most, r.Done > most:
			return fmt.Errorf("request %d comes at %d, is freed at %d and done at %d, expected an order and at most %d", i, r.From, r.Free, r.Done, most)
		case r.Free != Never && r.Free < r.From, r.Done != Never &&
			(r.Free == Never || r.Done < r.Free):
			return fmt.Errorf("request %d comes at %d, is freed at %d and done at %d", i, r.From,
				r.Free, r.Done)
		}
		last = r.From
	}
	return nil
}

// Placed returns offsets for the requests, as low as may be, in an arena of their own.
func (s *Step) Placed() descent.Solution { return descent.Place(s.Buffers(s.End()), nil, 0) }

// Kept returns the step as it is kept: its ticks are numbered without gaps, and where its blocks
// lay is forgotten.
func (s Step) Kept() Step {
	var ticks []mem.Tick
	for _, r := range s.Requests {
		ticks = append(ticks, r.From, r.Free, r.Done)
	}
	slices.Sort(ticks)
	ticks = slices.DeleteFunc(slices.Compact(ticks), func(t mem.Tick) bool { return t == Never })
	rank := func(t mem.Tick) mem.Tick {
		if i, found := slices.BinarySearch(ticks, t); found {
			return mem.Tick(i)
		}
		return Never
	}
	s.Requests = slices.Clone(s.Requests)
	for i, r := range s.Requests {
		s.Requests[i] = Request{Size: r.Size, From: rank(r.From), Free: rank(r.Free),
			Done: rank(r.Done)}
	}
	return s
}
