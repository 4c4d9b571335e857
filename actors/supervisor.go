package actors

import (
	"fmt"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/plan"
	"stalloc/stream/wish"
)

// supervisor is the actor that owns the life of the device's streams and of the plans that
// they are served by.
type supervisor struct {
	d      *Device
	wishes *wishesReady // carried out at the next boundary
	number uint64       // of those that were carried out last
	start  *plan.Plan   // of an earlier run: each stream that appears begins with it

	traceLast struct {
		at time.Time
		Stats
	}
}

// wishesReady tells the supervisor the wishes of the next steps.
type wishesReady struct {
	spaces map[spaceKey]Reel           // nil: none
	kinds  map[spaceKey][][]wish.Entry // the lists of all kinds of step, that which is served first
	number uint64                      // in the order in which they were sent
	fresh  bool                        // a new plan is among them
}

// Receive implements actor.Actor. It answers whatever happens.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case question:
		m.slot().reply(s.answer(m))
	case *wishesReady:
		s.merge(m)
		if s.d.opts.Inline { // planned at this very boundary
			s.wish()
		}
	}
}

// merge takes in new wishes, in place of those that have not been carried out.
func (s *supervisor) merge(m *wishesReady) {
	if s.wishes == nil {
		s.wishes = m
		return
	}
	for key, r := range m.spaces {
		if old := s.wishes.spaces[key]; old != nil {
			s.d.host.Discard(old)
		}
		s.wishes.spaces[key] = r
	}
	maps.Copy(s.wishes.kinds, m.kinds)
	s.wishes.number, s.wishes.fresh = m.number, s.wishes.fresh || m.fresh
}

// answer does what a message asks for. A panic fails that message alone: streams and
// pool know what they own.
func (s *supervisor) answer(q question) (err error) {
	var what string
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", what, r)
		}
	}()
	switch m := q.(type) {
	case *stepRequest:
		what = "step boundary"
		return s.step()
	case *admitRequest:
		what = "first request of a stream"
		known := s.d.laneOf(m.stream) != nil
		if m.lane = s.d.adopt(m.stream); !known && s.start != nil {
			return s.begin(m.lane, nil)
		}
	case *startRequest:
		what = "start with a saved plan"
		return s.startWith(m)
	case *retireRequest:
		what = "close"
		return s.retire()
	}
	return nil
}

// step is a boundary of the device: every stream's, the pool's, and then the planner
// hears what was observed.
func (s *supervisor) step() error {
	d := s.d
	for _, l := range *d.lanes.Load() {
		b := &boundary{}
		if d.ask(l.pid, b); b.err != nil {
			d.log.Error("a stream could not end its step", zap.Int("stream", l.ordinal), zap.Error(b.err))
		}
	}
	end := &poolRequest{verb: verbBoundary}
	d.ask(d.pool, end)
	if end.step != nil {
		end.step.wishes = s.number
		for _, l := range *d.lanes.Load() {
			end.step.order = append(end.step.order, l.id)
		}
	}
	d.steps.Add(1)
	d.auto.ended(d.host)
	s.wish()
	s.traced()
	if d.planner != nil && end.step != nil {
		d.observed(end.step)
		d.simulate(end.step)
	}
	return end.err
}

// wish has the streams wish what the planner has decided.
func (s *supervisor) wish() {
	ready := s.wishes
	s.wishes = nil
	if ready == nil {
		return
	}
	s.number = ready.number
	for _, l := range *s.d.lanes.Load() {
		m := &wishRequest{}
		for small := range m.reels {
			r, change := ready.spaces[spaceKey{l.id, small == 1}]
			m.reels[small], m.change[small] = r, change
			m.kinds[small] = ready.kinds[spaceKey{l.id, small == 1}]
		}
		if m.change != [2]bool{} || m.kinds[0] != nil || m.kinds[1] != nil {
			if s.d.ask(l.pid, m); m.err != nil {
				s.d.log.Error("a plan is not served on one stream", zap.Int("stream", l.ordinal), zap.Error(m.err))
			}
		}
	}
	if ready.fresh {
		s.d.log.Info("plan active", zap.Uint64("generation", s.d.generation.Add(1)))
	}
}

// reel makes a reel of wishes; of none, none.
func (d *Device) reel(entries []wish.Entry) Reel {
	if len(entries) == 0 {
		return nil
	}
	return d.host.Build(entries)
}
