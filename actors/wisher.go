package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/wish"
)

// wisher is the planner of a device whose memory is one range for each stream. It looks
// whether a step asked for what the one before did, and if so decides where in the
// range the blocks of the next are best placed. What it decides are wishes: it owns no
// memory, and a bad plan costs the places it gives.
type wisher struct {
	d     *Device
	known map[spaceKey]*habit
}

// habit is what is known about one space.
type habit struct {
	before  []wish.Entry // the last step's requests
	ends    []mem.Tick
	planned bool
	without float64 // what stitching took of the last step without a plan
	tries   int     // plans in a row that did not serve
	rest    int     // steps to let pass before the next
}

const (
	// Two steps are alike, and a plan serves, if so much of their requests agrees.
	alike  = 0.95
	serves = 0.98
	// A plan saves about so much of a step's time: more than that must not be stitched for
	// what is not as planned.
	saves = 0.001
	// The end of a block that other streams use moves from step to step. As long as the
	// memory allows, its place is left alone for so many more events, at most.
	mostMargin = 1 << 10
)

// wishesReady tells the supervisor the wishes of the next steps.
type wishesReady struct {
	spaces map[spaceKey][]wish.Entry
}

// Receive implements actor.Actor.
func (w *wisher) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			w.d.log.Error("the planner failed on one step and starts over with the next", zap.Any("panic", r))
			w.known = map[spaceKey]*habit{}
		}
	}()
	switch m := ctx.Message().(type) {
	case *foreseen:
		m.layOut()
	case stepsWait:
		w.ended()
	}
}

// ended looks at the steps that have ended.
func (w *wisher) ended() {
	ready := &wishesReady{spaces: map[spaceKey][]wish.Entry{}}
	for _, m := range w.d.inbox.take() {
		for i := range m.spaces {
			s := &m.spaces[i]
			if wishes, change := w.look(s); change {
				ready.spaces[s.spaceKey] = wishes
			}
		}
	}
	if len(ready.spaces) > 0 {
		w.d.root.Send(w.d.supervisor, ready)
	}
}

// look compares a step with the last one, and returns new wishes if there is a reason.
func (w *wisher) look(s *spaceStep) (wishes []wish.Entry, change bool) {
	h := w.known[s.spaceKey]
	if h == nil {
		h = &habit{}
		w.known[s.spaceKey] = h
	}
	tape := wish.Tape{Entries: h.before}
	now := make([]wish.Entry, len(s.requests))
	for i, r := range s.requests {
		size := uint64(r.size / mem.Grain)
		now[i] = wish.Of(size, 0)
		tape.Next(size)
	}
	same := len(h.ends) == len(s.requests) && tape.Matched == len(s.requests)
	ends := make([]mem.Tick, len(s.requests))
	for i := range s.requests {
		r := &s.requests[i]
		if same && r.late && r.to >= 0 {
			r.to = max(r.to, h.ends[i])
		}
		ends[i] = r.to
	}
	h.before, h.ends = now, ends
	n := float64(len(s.requests))
	if float64(tape.Matched) < alike*n {
		change, h.planned = h.planned, false
		return nil, change
	}
	if h.planned && !s.small && s.paid > h.without+saves { // it costs more than it saves
		h.planned = false
		h.later()
		return nil, true
	}
	if !h.planned {
		h.without = s.paid
	}
	if h.planned && float64(s.hits) >= serves*n {
		h.tries, h.rest = 0, 0
		return nil, false
	}
	if h.rest > 0 {
		h.rest--
		return nil, false
	}
	if h.planned { // it does not serve as it should: another one, less and less often
		h.later()
	}
	wishes = wishesOf(s, w.d.base)
	change = h.planned || wishes != nil
	h.planned = wishes != nil
	return wishes, change
}

// later lets more steps pass before the next plan than before the last.
func (h *habit) later() {
	h.tries++
	h.rest = 1 << min(h.tries, 6)
}

// wishesOf places the requests of a step in the gaps that the range had at its end. What
// would lie beyond the last of them has no wish.
func wishesOf(s *spaceStep, base mem.Addr) []wish.Entry {
	entries := make([]wish.Entry, len(s.requests))
	if s.small { // they cost no memory worth a plan: each goes where it lay
		for i, r := range s.requests {
			entries[i] = wish.Of(uint64(r.size/mem.Grain), uint64(r.at-base)/uint64(mem.Grain))
		}
		return entries
	}
	buffers := make([]plan.Buffer, len(s.requests))
	for i, r := range s.requests {
		if r.to < 0 {
			r.to = s.events
		}
		buffers[i] = plan.Buffer{Lower: r.from, Upper: r.to, Size: r.size}
		entries[i] = wish.Of(uint64(r.size/mem.Grain), 0)
	}
	if len(s.gaps) == 0 {
		return entries
	}
	origin := s.gaps[0].Addr
	var fixed []plan.Fixed
	for i, g := range s.gaps[1:] {
		before := s.gaps[i]
		fixed = append(fixed, plan.Fixed{
			From: mem.Offset(before.Addr - origin + mem.Addr(before.Size)), To: mem.Offset(g.Addr - origin), Until: s.events,
		})
	}
	last := s.gaps[len(s.gaps)-1]
	end := mem.Bytes(last.Addr-origin) + last.Size
	var solved plan.Solution
	for margin := mem.Tick(mostMargin); ; margin /= 2 {
		late := false
		for i, r := range s.requests {
			if r.late && r.to >= 0 {
				late = true
				buffers[i].Upper = min(r.to+margin, s.events)
			}
		}
		solved = plan.SolveAround(buffers, fixed, end, plan.Options{})
		if !late || margin == 0 || solved.Makespan <= end {
			break
		}
	}
	if solved.Makespan > end+end/foreseenMore {
		return nil // the blocks without a place would take those of others
	}
	for i, r := range s.requests {
		at := mem.Bytes(solved.Offsets[i])
		inside := slices.ContainsFunc(s.gaps, func(g engine.Range) bool {
			from := mem.Bytes(g.Addr - origin)
			return at >= from && at+r.size <= from+g.Size
		})
		if inside {
			entries[i] = wish.Of(uint64(r.size/mem.Grain), uint64(origin-base)/uint64(mem.Grain)+uint64(at/mem.Grain))
		}
	}
	return entries
}
