package actors

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// supervisor is the actor that owns the life of the device's streams and of the plans that
// they are served by.
type supervisor struct {
	d         *Device
	schedules *schedulesReady // carried out at the next boundary
	number    uint64          // of those that were carried out last

	dropped bool // the planner has not got the last step
	// What is logged of steps that the planner does not see: each once.
	saidLost, saidDropped sync.Once

	traceLast struct {
		at time.Time
		Stats
	}
}

// schedulesReady tells the supervisor the schedules of the next steps.
type schedulesReady struct {
	schedules map[arenaKey]*Schedule // where they change; nil: none
	number    uint64                 // in the order in which they were sent
	fresh     bool                   // a new plan is among them
}

// Receive implements actor.Actor. It answers whatever happens.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *order[*supervisor]:
		m.reply(s.perform(m.do))
	case *schedulesReady:
		s.merge(m)
		if s.d.opts.Inline { // planned at this very boundary
			s.serve()
		}
	}
}

// merge takes in new schedules, in place of those that have not been carried out.
func (s *supervisor) merge(m *schedulesReady) {
	if s.schedules == nil {
		s.schedules = m
		return
	}
	maps.Copy(s.schedules.schedules, m.schedules)
	s.schedules.number, s.schedules.fresh = m.number, s.schedules.fresh || m.fresh
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

// admit makes what is known of a stream.
func (s *supervisor) admit(id mem.StreamID) error {
	if s.d.streamOf(id) != nil {
		return nil
	}
	s.d.adopt(id)
	return nil
}

// step is a boundary of the device: every stream's, the pool's, and then the planner
// hears what was observed.
func (s *supervisor) step() error {
	d := s.d
	if len(*d.streams.Load()) == 0 { // nothing was requested yet: no step has begun
		return nil
	}
	for _, l := range *d.streams.Load() {
		if !l.planned.Load() { // nearly all, where a program makes a stream for each piece of work
			continue
		}
		if err := d.playing(l, func(*[schedule.Cursors]*Schedule) {}); err != nil {
			d.log.Error("a stream could not end its step", zap.Int("stream", l.ordinal),
				zap.Error(err))
		}
	}
	var ended *stepEnded
	var gone []mem.StreamID
	err := d.rare(func(p *pool) (err error) {
		ended, err = p.endStep()
		if p.ranged != nil {
			gone = p.ranged.Forget(d.kept)
		}
		return err
	}, ignored)
	var order []mem.StreamID
	for _, l := range *d.streams.Load() {
		order = append(order, l.id)
	}
	d.forget(gone)
	d.steps.Add(1)
	number := s.number
	s.serve()
	s.traced()
	if ended != nil {
		ended.schedules, ended.order = number, order
		s.observed(ended)
		d.simulate(ended)
		ended.read()
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
	m.readers.Add(1)
	d.root.Send(d.planner, m)
}

// serve has the streams serve what the planner has decided.
func (s *supervisor) serve() {
	ready := s.schedules
	s.schedules = nil
	if ready == nil {
		return
	}
	s.number = ready.number
	for _, l := range *s.d.streams.Load() {
		large, changed := ready.schedules[arenaKey{l.id, false}]
		small, also := ready.schedules[arenaKey{l.id, true}]
		if !changed && !also {
			continue
		}
		err := s.d.playing(l, func(schedules *[schedule.Cursors]*Schedule) {
			if changed {
				schedules[schedule.Large] = large
			}
			if also {
				schedules[schedule.Small] = small
			}
		})
		if err != nil {
			s.d.log.Error("a plan is not served on one stream", zap.Int("stream", l.ordinal),
				zap.Error(err))
		}
	}
	if ready.fresh {
		s.d.log.Info("plan active", zap.Uint64("generation", s.d.generation.Add(1)))
	}
}
