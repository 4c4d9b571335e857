// Package match measures how well the tape of an irregular step fits steps it has
// not seen.
package match

import (
	"strings"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
	"stalloc/trace"
)

// kind is what happens to a block.
type kind uint8

const (
	begin kind = iota // the request
	free              // the program's free
	end               // the end of its life: other streams are done with it
)

type event struct {
	kind   kind
	id     int32
	size   mem.Bytes // rounded
	stream int       // ordinal
	later  bool      // free: the end comes later
}

// run is a recorded run, cut into steps. steps[0] is set-up and the first step.
type run struct {
	name  string
	steps [][]event
}

// load reads a recording, with a share of its requests inserted and left out.
func load(t testing.TB, name string, noise float64) *run {
	t.Helper()
	tr, err := trace.ReadFile("../traces/" + name + ".csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	tr = tr.Disturb(1, noise)
	r := &run{name: name}
	ordinal := map[mem.StreamID]int{}
	of := map[int64]*event{}
	var now []event
	begun := 0
	for i := range tr.Events {
		e := &tr.Events[i]
		switch e.Kind {
		case trace.Mark:
			if strings.HasPrefix(e.Mark, "step ") || e.Mark == "end" {
				if begun > 0 {
					r.steps = append(r.steps, now)
					now = nil
				}
				begun++
			}
		case trace.Alloc:
			if _, ok := ordinal[e.Stream]; !ok {
				ordinal[e.Stream] = len(ordinal)
			}
			ev := event{kind: begin, id: int32(e.ID), size: mem.Round(e.Size), stream: ordinal[e.Stream]}
			of[e.ID] = &ev
			now = append(now, ev)
		case trace.FreeRequested:
			ev := *of[e.ID]
			ev.kind = free
			next := i + 1
			ev.later = next >= len(tr.Events) || tr.Events[next].Kind != trace.FreeCompleted || tr.Events[next].ID != e.ID
			now = append(now, ev)
		case trace.FreeCompleted:
			ev := *of[e.ID]
			ev.kind = end
			now = append(now, ev)
		}
	}
	return r
}

// observe returns the steps as a recorder on the device sees them. A block that
// another stream uses ends when that stream is done with it.
func (r *run) observe() [][]*plan.Step {
	streams := 0
	for _, s := range r.steps {
		for _, e := range s {
			streams = max(streams, e.stream+1)
		}
	}
	recs := make([]plan.Recorder, streams)
	var out [][]*plan.Step
	for _, s := range r.steps {
		for _, e := range s {
			switch e.kind {
			case begin:
				recs[e.stream].Alloc(uint64(e.id), e.size)
			case free:
				if !e.later {
					recs[e.stream].Free(uint64(e.id))
				}
			case end:
				recs[e.stream].Free(uint64(e.id))
			}
		}
		step := make([]*plan.Step, streams)
		for i := range recs {
			step[i] = recs[i].Boundary()
		}
		out = append(out, step)
	}
	return out
}

// layout turns a plan's stream into a tape.
func layout(t testing.TB, ps *plan.Stream) *stream.Layout {
	t.Helper()
	slots := make([]stream.Slot, len(ps.Slots))
	for i, s := range ps.Slots {
		slots[i] = stream.Slot{Offset: s.Offset, Size: s.Size, Pool: s.Pool, Spread: s.Spread, Persist: s.Persist}
	}
	orders := make([][]int32, len(ps.Tapes))
	for i, tape := range ps.Tapes {
		for _, e := range tape.Entries {
			orders[i] = append(orders[i], int32(e))
		}
	}
	l, err := stream.Lay(slots, orders...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// result is what serving one step took.
type result struct {
	arena, pool, peak  mem.Bytes // pool: peak of what is live outside the arena
	requests, hits     int
	bytes, hitBytes    mem.Bytes
	guests, guestBytes mem.Bytes
	spent              time.Duration
}

func (r result) over() float64 { return 100 * (float64(r.arena+r.pool)/float64(r.peak) - 1) }

type block struct {
	size   mem.Bytes
	stream int
	addr   mem.Addr
	ticket stream.Ticket
	slot   bool
	pool   bool // its bytes are the pool's
}

// options of a simulation.
type options struct {
	envelope bool // positions that vary have slots
	tuning   stream.Tuning
	check    bool // recount after every event
}

// sim is a step being served.
type sim struct {
	options
	result
	tapes      []*stream.Tape
	live       map[int32]block
	load, used mem.Bytes // live now: everywhere, and in the pool
	created    mem.Bytes // memory that the pool has
}

// before takes in an event of an earlier step: its blocks lie in the pool.
func (s *sim) before(e event) {
	switch e.kind {
	case begin:
		s.live[e.id] = block{size: e.size, pool: true}
		s.load += e.size
	case end:
		s.load -= e.size
		delete(s.live, e.id)
	}
}

func (s *sim) begin(e event) {
	got := s.tapes[e.stream].Alloc(e.size)
	b := block{size: e.size, stream: e.stream, ticket: got.Ticket, addr: got.Addr, slot: got.Slot != stream.None || got.Guest}
	s.requests++
	s.bytes += e.size
	s.load += e.size
	switch {
	case got.Slot != stream.None:
		s.hits++
		s.hitBytes += e.size
	case got.Guest:
		s.guests++
		s.guestBytes += e.size
	default:
		b.pool = true
		s.used += e.size
		s.created = max(s.created, s.used)
	}
	s.live[e.id] = b
}

func (s *sim) free(e event) {
	b := s.live[e.id]
	switch {
	case b.slot && e.later:
		s.tapes[b.stream].Pin(b.addr)
	case b.slot:
		s.tapes[b.stream].Free(b.addr)
	case !e.later:
		s.tapes[b.stream].Ended(b.ticket)
	}
}

func (s *sim) end(e event) {
	b := s.live[e.id]
	delete(s.live, e.id)
	s.load -= b.size
	if b.pool {
		s.used -= b.size
	}
	switch tape := s.tapes[b.stream]; {
	case b.slot:
		tape.Release(b.addr)
	case b.ticket != 0:
		tape.Ended(b.ticket)
	}
}

// serve plays step k of the run on the plan. The pool is one that wastes nothing.
func (r *run) serve(t testing.TB, p *plan.Plan, k int, o options) result {
	t.Helper()
	s := sim{options: o, live: map[int32]block{}}
	for i := range p.Streams {
		tape := stream.New(layout(t, &p.Streams[i]), mem.Addr(i+1)<<44)
		tape.Hosts = true
		tape.Tune(o.tuning)
		tape.Step()
		s.tapes = append(s.tapes, tape)
		s.arena += p.Streams[i].Arena
	}
	for _, step := range r.steps[:k] {
		for _, e := range step {
			s.before(e)
		}
	}
	s.used, s.created, s.peak = s.load, s.load, s.load
	start := time.Now()
	for _, e := range r.steps[k] {
		switch e.kind {
		case begin:
			s.begin(e)
		case free:
			s.free(e)
		case end:
			s.end(e)
		}
		s.peak = max(s.peak, s.load)
		for _, tape := range s.tapes {
			if !o.check {
				break
			}
			if err := tape.Check(); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.spent, s.pool = time.Since(start), s.created
	return s.result
}
