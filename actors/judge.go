package actors

import (
	"fmt"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// A plan is worth serving only if the steps to come are like those it was made
// from. Whether they are is not guessed: a later step is replayed against the
// plan, in memory and without a device, before the plan is served at all.

// verdict is what serving a step from a plan comes to.
type verdict struct {
	requests int64
	slots    int64     // requests that have their slot
	misses   int64     // requests of which the plan does not say that the pool serves them
	memory   mem.Bytes // arenas, and the peak of what the pool holds beside them
	peak     mem.Bytes // what the pool alone needs: the load's peak, or what it has reserved
}

// Bounds of what a plan may cost and still be served. An idle arena beside a pool
// that serves everything can need twice the memory, so what counts is bytes; the
// more requests hit, the more of them is excused.
const (
	missesBelow = 100 // hits are well if fewer than one request in so many misses
	slackHits   = 40  // then a plan may take one part in so many more than the pool alone
	slackAny    = 128 // and one part in so many if it serves only half of the requests
	// A plan must have slots for so many of so many requests. The others are matched
	// to positions and placed as guests, which takes longer than the pool does.
	slotsAtLeast, slotsOf = 3, 4
)

// hits reports whether nearly every request is served from the plan.
func (v *verdict) hits() bool { return v.misses*missesBelow <= v.requests }

// over reports whether the memory is more than one part in slack above room: what
// the pool alone would have reserved by now.
func (v *verdict) over(room mem.Bytes, slack mem.Bytes) bool {
	return v.memory > room+room/slack+mem.HandleSize
}

// serves reports whether the step is well served.
func (v *verdict) serves(room mem.Bytes) bool {
	if 2*v.misses > v.requests || slotsOf*v.slots < slotsAtLeast*v.requests {
		return false
	}
	slack := slackHits + 2*(slackAny-slackHits)*v.misses/max(v.requests, 1)
	return !v.over(room, mem.Bytes(slack))
}

// judge replays a step, by stream ordinal, against each steady tape of a plan and
// returns the best outcome and the number of the tape it followed. It changes
// nothing.
func (s *layouts) judge(p *plan.Plan, steps []*plan.Step, tuning stream.Tuning) (verdict, int, error) {
	best, kind := verdict{}, -1
	for order := range tapes(p) {
		v, ended, err := s.judgeOrder(p, order, steps, tuning)
		if err != nil {
			return v, order, err
		}
		if kind < 0 || v.misses < best.misses || v.misses == best.misses && v.memory < best.memory {
			best, kind = v, ended
		}
	}
	if kind < 0 {
		return best, kind, fmt.Errorf("the plan has no steady tape")
	}
	return best, kind, nil
}

// tapes ranges over the numbers of the plan's steady tapes. Every stream has the
// same ones.
func tapes(p *plan.Plan) func(func(int) bool) {
	return func(yield func(int) bool) {
		if len(p.Streams) == 0 {
			return
		}
		for i, tape := range p.Streams[0].Tapes {
			if tape.Kind == plan.Steady && !yield(i) {
				return
			}
		}
	}
}

// judgeOrder replays a step against one tape of every stream. It also returns the
// tape that the busiest stream went over to, if it did. Streams have their peaks at
// different times, so the sums say too much of the memory and of the load alike.
func (s *layouts) judgeOrder(p *plan.Plan, order int, steps []*plan.Step, tuning stream.Tuning) (v verdict, ended int, err error) {
	busiest := int64(0)
	ended = order
	for ordinal, step := range steps {
		if step == nil {
			continue
		}
		peak, _ := step.Peaks()
		v.peak += peak
		v.requests += step.Requests()
		ps := part(p, ordinal)
		if ps == nil {
			v.misses += step.Requests()
			v.memory += peak
			continue
		}
		layout, err := s.of(ps, ground{})
		if err != nil {
			return v, ended, err
		}
		tape := stream.New(layout, dryBase)
		tape.Hosts = true
		tape.Tune(tuning)
		tape.Play(order)
		hits, misses, held := dryRun(tape, step)
		v.slots += hits
		v.misses += misses
		v.memory += ps.Arena + held
		if n := step.Requests(); n > busiest {
			busiest, ended = n, tape.Order()
		}
	}
	return v, ended, nil
}

// dryBase is where the arena of a dry run lies: anywhere but at zero.
const dryBase = mem.Addr(mem.TiB)

// dryRun serves a step from a tape. It returns how many requests had their slot, how
// many missed that the tape expected, and the peak of what the pool had to hold.
func dryRun(tape *stream.Tape, s *plan.Step) (slots, misses int64, held mem.Bytes) {
	at := make([]mem.Addr, len(s.Blocks)) // zero: the pool's
	tickets := make([]stream.Ticket, len(s.Blocks))
	var pool mem.Bytes
	for _, b := range s.Blocks {
		if b.Alloc < 0 {
			pool += b.Size
		}
	}
	held = pool
	for _, op := range s.Ops {
		size := s.Blocks[op.Block].Size
		switch {
		case op.Free && at[op.Block] != 0:
			tape.Free(at[op.Block])
		case op.Free:
			pool -= size
			tape.Ended(tickets[op.Block])
		default:
			got := tape.Alloc(size)
			at[op.Block], tickets[op.Block] = got.Addr, got.Ticket
			switch {
			case got.Slot != stream.None:
				slots++
			case !got.Guest:
				pool += size
				held = max(held, pool)
				if !got.Pool {
					misses++
				}
			}
		}
	}
	return slots, misses, held
}

// actual is the verdict on a step that was really served.
func actual(m *stepEnded, steps []*plan.Step) (v verdict) {
	v.memory = m.pending
	for i := range m.steps {
		o := &m.steps[i]
		s := steps[o.ordinal]
		peak, held := s.Peaks()
		v.peak += peak
		v.requests += s.Requests()
		v.memory += o.arenas + held
		v.misses += s.Requests()
		if o.part != nil {
			v.slots += o.hits
			v.misses -= min(o.hits+poolEntries(o.part, o.order), s.Requests())
		}
	}
	// Blocks that wait for other streams are part of the load, but while a plan is
	// served nobody knows how much of it they are at its peak.
	v.peak += m.pending
	if m.reserved > 0 {
		v.peak = m.reserved
	}
	return v
}

// poolEntries counts the requests of a tape that the pool serves by plan.
func poolEntries(ps *plan.Stream, order int) (n int64) {
	if order >= len(ps.Tapes) {
		return 0
	}
	for _, e := range ps.Tapes[order].Entries {
		if !e.Frees() && ps.Slots[e.Slot()].Pool {
			n++
		}
	}
	return n
}
