package actors

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/internal/mem"
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

	dropped bool // the planner has not got the last step
	// What is logged of steps that the planner does not see: each once.
	saidLost, saidDropped sync.Once

	traceLast struct {
		at time.Time
		Stats
	}
}

// wishesReady tells the supervisor the wishes of the next steps.
type wishesReady struct {
	reels  map[spaceKey]*Reel // where they change; nil: none
	number uint64             // in the order in which they were sent
	fresh  bool               // a new plan is among them
}

// Receive implements actor.Actor. It answers whatever happens.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *order[*supervisor]:
		m.reply(s.perform(m.do))
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
	maps.Copy(s.wishes.reels, m.reels)
	s.wishes.number, s.wishes.fresh = m.number, s.wishes.fresh || m.fresh
}

// perform does what is asked for. A panic fails that alone: streams and pool know what they
// own.
func (s *supervisor) perform(do func(*supervisor) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a boundary, or the beginning of a stream: %v", r)
		}
	}()
	return do(s)
}

// admit makes the lane of a stream, which begins with the plan of an earlier run if there is
// one.
func (s *supervisor) admit(id mem.StreamID) error {
	if s.d.laneOf(id) != nil {
		return nil
	}
	l := s.d.adopt(id)
	if s.start == nil {
		return nil
	}
	return s.begin(l, nil)
}

// step is a boundary of the device: every stream's, the pool's, and then the planner
// hears what was observed.
func (s *supervisor) step() error {
	d := s.d
	if len(*d.lanes.Load()) == 0 { // nothing was requested yet: no step has begun
		return nil
	}
	for _, l := range *d.lanes.Load() {
		if err := tell(d, l.pid, (*lane).ended); err != nil {
			d.log.Error("a stream could not end its step", zap.Int("stream", l.ordinal), zap.Error(err))
		}
	}
	var ended *stepEnded
	err := d.rare(func(p *pool) (err error) {
		ended, err = p.endStep()
		d.auto.seen = 0 // the log begins anew
		return err
	}, ignored)
	d.steps.Add(1)
	number := s.number
	s.wish()
	s.traced()
	if ended != nil {
		ended.wishes = number
		for _, l := range *d.lanes.Load() {
			ended.order = append(ended.order, l.id)
		}
		s.observed(ended)
		d.simulate(ended)
	}
	return err
}

// observed hands a step to the planner, unless too many wait for it already.
func (s *supervisor) observed(m *stepEnded) {
	d := s.d
	if m.lost > 0 {
		s.saidLost.Do(func() {
			d.log.Warn("a step is not planned: it has more requests and frees than are observed of one; mark steps more often",
				zap.Int("observed", len(m.events)), zap.Int("at most", MostEvents))
		})
	}
	if wait := d.waiting.Load(); wait > 0 && wait+m.weight() > mostWaiting {
		d.dropped.Add(uint64(len(m.events)))
		s.dropped = true
		s.saidDropped.Do(func() { d.log.Warn("steps end faster than they can be looked at; some are not") })
		return
	}
	m.gap, s.dropped = s.dropped, false
	d.waiting.Add(m.weight())
	d.root.Send(d.planner, m)
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
		err := tell(s.d, l.pid, func(l *lane) error {
			for tape := range l.reels {
				if r, changed := ready.reels[spaceKey{l.id, tape == wish.Small}]; changed {
					l.serve(tape, r)
				}
			}
			return nil
		})
		if err != nil {
			s.d.log.Error("a plan is not served on one stream", zap.Int("stream", l.ordinal), zap.Error(err))
		}
	}
	if ready.fresh {
		s.d.log.Info("plan active", zap.Uint64("generation", s.d.generation.Add(1)))
	}
}
