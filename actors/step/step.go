// Package step reads what was logged of a training step: once, for all that need it.
//
//	log: hits, misses, frees ──► Reader.Read ──► Step: requests with lifetimes, by arena (planner)
//	                                                   the peak of the load (warning)
//	                                                   what became of each block (simulation)
package step

import (
	"slices"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

// Arena names an arena of the range: a stream's for large or for small requests.
type Arena struct {
	Stream mem.StreamID
	Small  bool
}

// Observed is what was logged of a step that has ended, and what the pool knew then.
type Observed struct {
	Events    []schedule.Event
	Lost      uint64                   // events that the log had no room for
	Streams   map[uint16]mem.StreamID  // by the ordinals that events have
	Order     []mem.StreamID           // in the order of their first requests
	Gaps      map[Arena][]engine.Range // at the end of the step, by address
	Load      mem.Bytes                // at its end, as the following
	Asleep    mem.Bytes
	Reserved  mem.Bytes
	Limit     mem.Bytes                // that the program has set, 0: none
	Schedules uint64                   // the number of those that were carried out last
	Gap       bool                     // steps before it were dropped
	Return    func(e []schedule.Event) // takes Events back once they were read
}

// Weight is how many events' memory an observed step takes.
func (o *Observed) Weight() int64 {
	const empty = 16 // without events and gaps
	return int64(len(o.Events) + empty*(1+len(o.Gaps)))
}

// Step is what a log says.
type Step struct {
	Arenas  []*ArenaStep // in the order of their first requests
	Peak    mem.Bytes    // of the load, above that at the step's beginning
	Changes []Change     // where the Reader keeps them
}

// ArenaStep is what a step asked of one arena. Its requests lie at offsets from the window's base.
type ArenaStep struct {
	Arena
	plan.Step
	Gaps []engine.Range // at the end of the step
	End  mem.Tick       // of the step
	Hits int            // requests that were served at their planned offsets
}

// Change is what became of a block.
type Change struct {
	Kind   schedule.EventKind
	Block  int       // its number, in the order of requests; < 0: unknown
	Size   mem.Bytes // rounded
	Stream mem.StreamID
}

// Reader reads the logs of a device, step after step. The zero value has seen no step.
type Reader struct {
	Keep     bool // the changes
	log      schedule.Reader
	requests []request     // of this step
	asked    map[Arena]int // how many requests each arena had in the last step
}

// request is the place of a block's request.
type request struct {
	of *ArenaStep
	n  int
}

// Read reads a log. Requests of up to small bytes are in small arenas; base is where the window
// begins. Blocks of earlier steps are known unless events were lost since.
func (r *Reader) Read(o *Observed, small mem.Bytes, base mem.Addr) *Step {
	if o.Lost > 0 || o.Gap {
		r.log = schedule.Reader{}
	}
	s := &Step{}
	if r.Keep {
		s.Changes = make([]Change, 0, len(o.Events))
	}
	r.requests = r.requests[:0]
	load, first := mem.Bytes(0), r.log.Blocks()
	ordinal, stream := uint16(0), o.Streams[0]
	for tick, l := range r.log.Read(o.Events) {
		size := mem.Bytes(l.Event.Size()) * mem.Grain
		if l.Event.Stream() != ordinal {
			ordinal = l.Event.Stream()
			stream = o.Streams[ordinal]
		}
		if r.Keep {
			s.Changes = append(s.Changes, Change{l.Kind, l.Block, size, stream})
		}
		switch l.Kind {
		case schedule.EventHit, schedule.EventMiss:
			load += size
			s.Peak = max(s.Peak, load)
			a := s.arena(Arena{stream, size <= small}, o, r.asked)
			r.requests = append(r.requests, request{a, len(a.Requests)})
			a.request(l.Event, size, tick, base)
			continue
		case schedule.EventFree, schedule.EventLate:
			load -= size
		}
		if i := l.Block - first; i >= 0 {
			r.requests[i].end(l.Kind, mem.Tick(tick))
		}
	}
	clear(r.requests) // or the step would stay in memory until one is as long
	r.asked = make(map[Arena]int, len(s.Arenas))
	for _, a := range s.Arenas {
		r.asked[a.Arena] = len(a.Requests)
	}
	return s
}

// arena returns what a step asked of one, where it is the first time, too. Its requests have the
// room that they took in the last step.
func (s *Step) arena(key Arena, o *Observed, asked map[Arena]int) *ArenaStep {
	i := slices.IndexFunc(s.Arenas, func(a *ArenaStep) bool { return a.Arena == key })
	if i < 0 {
		i = len(s.Arenas)
		a := &ArenaStep{Arena: key, Gaps: o.Gaps[key], End: mem.Tick(len(o.Events))}
		a.Step.Stream = slices.Index(o.Order, key.Stream)
		a.Requests = make([]plan.Request, 0, min(asked[key], len(o.Events)))
		s.Arenas = append(s.Arenas, a)
	}
	return s.Arenas[i]
}

func (a *ArenaStep) request(e schedule.Event, size mem.Bytes, tick int, base mem.Addr) {
	a.Requests = append(a.Requests, plan.Request{Size: size, From: mem.Tick(tick),
		Free: plan.Never, Done: plan.Never, At: mem.Offset(mem.Addr(e.Addr) - base)})
	if e.Kind() == schedule.EventHit {
		a.Hits++
	}
}

// end notes that a block was freed, or that the last stream was done with it.
func (r request) end(what schedule.EventKind, tick mem.Tick) {
	x := &r.of.Requests[r.n]
	if what != schedule.EventDone {
		x.Free = tick
	}
	if what != schedule.EventLate {
		x.Done = tick
	}
}
