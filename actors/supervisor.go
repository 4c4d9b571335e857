package actors

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/host"
	"stalloc/actors/inline"
	"stalloc/actors/planner"
	"stalloc/actors/pool"
	"stalloc/actors/step"
	"stalloc/actors/stream"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// supervisor is the actor that owns the life of the device's streams and of the plans that
// they are served by.
type supervisor struct {
	d         *Device
	schedules *planner.Ready // carried out at the next boundary
	number    uint64         // of those that were carried out last

	dropped bool // the planner has not got the last step
	// Each is logged once.
	warnLost, warnDropped sync.Once

	traceLast struct {
		at time.Time
		Stats
	}
}

// Receive implements inline.Actor. It answers whatever happens.
func (s *supervisor) Receive(message any) {
	switch m := message.(type) {
	case *inline.Call[*supervisor]:
		inline.Reply(m, s.perform(m.Do))
	case *planner.Ready:
		s.merge(m)
		if s.d.opts.Inline { // planned at this very boundary
			s.activate()
		}
	}
}

func (d *Device) onSupervisor(do func(*supervisor) error) error {
	m := &inline.Call[*supervisor]{Do: do}
	d.system.Ask(d.supervisor, m)
	return m.Err
}

// merge takes in new schedules, in place of those that have not been carried out.
func (s *supervisor) merge(m *planner.Ready) {
	if s.schedules == nil {
		s.schedules = m
		return
	}
	maps.Copy(s.schedules.Schedules, m.Schedules)
	s.schedules.Number, s.schedules.Fresh = m.Number, s.schedules.Fresh || m.Fresh
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

// step is a boundary of the device: every stream's, the pool's, and then the planner is told what
// was observed.
func (s *supervisor) step() error {
	d := s.d
	if len(d.streams.All()) == 0 { // nothing was requested yet: no step has begun
		return nil
	}
	_ = s.update(func(x *stream.Stream, _ *stream.Schedules) bool { return x.Planned() })
	var ended *step.Observed
	var gone []mem.StreamID
	err := d.onPool(func(p *pool.Pool) (err error) {
		ended, gone, err = p.EndStep(d.streams.Keep)
		return err
	}, nothing)
	var order []mem.StreamID
	for _, x := range d.streams.All() {
		order = append(order, x.ID)
	}
	d.streams.Forget(gone)
	d.counts.steps.Add(1)
	number := s.number
	s.activate()
	s.traced()
	if ended != nil && d.planner != nil {
		ended.Schedules, ended.Order = number, order
		s.enqueue(ended)
	}
	return err
}

// update gives streams schedules where edit says so.
func (s *supervisor) update(edit func(*stream.Stream, *stream.Schedules) bool) error {
	err := s.d.streams.Update(edit)
	if err != nil {
		s.d.log.Error("a stream is served without a plan", zap.Error(err))
	}
	return err
}

// maxWaiting bounds the events that wait for the planner: steps may end faster than it reads them.
const maxWaiting = host.MostEvents

// enqueue hands a step to the planner, unless too many wait for it already.
func (s *supervisor) enqueue(m *step.Observed) {
	d := s.d
	if m.Lost > 0 {
		s.warnLost.Do(func() {
			d.log.Warn("a step is not planned: it has more requests and frees than are observed of "+
				"one; mark steps more often",
				zap.Int("observed", len(m.Events)), zap.Int("at most", host.MostEvents))
		})
	}
	wait := d.counts.waiting.Load()
	if wait > 0 && wait+m.Weight() > maxWaiting {
		d.counts.dropped.Add(uint64(len(m.Events)))
		m.Return(m.Events)
		s.dropped = true
		s.warnDropped.Do(func() {
			d.log.Warn("steps end faster than they can be planned; some are not planned")
		})
		return
	}
	m.Gap, s.dropped = s.dropped, false
	d.counts.waiting.Add(m.Weight())
	d.system.Send(d.planner, m)
}

// activate gives the streams the schedules that the planner has decided.
func (s *supervisor) activate() {
	ready := s.schedules
	s.schedules = nil
	if ready == nil {
		return
	}
	s.number = ready.Number
	_ = s.update(func(x *stream.Stream, to *stream.Schedules) bool {
		large, changed := ready.Schedules[step.Arena{Stream: x.ID}]
		small, also := ready.Schedules[step.Arena{Stream: x.ID, Small: true}]
		if changed {
			to[schedule.Large] = large
		}
		if also {
			to[schedule.Small] = small
		}
		return changed || also
	})
	if ready.Fresh {
		s.d.log.Info("plan active", zap.Uint64("generation", s.d.counts.generation.Add(1)))
	}
}

// Step marks a step boundary: new plans become active here and nowhere else. For a program that
// never calls it a step ends every pool.ImplicitStep events: nothing is planned, but memory is laid
// out as if they were steps.
func (d *Device) Step() error {
	if d.life.state.Load() != isOpen {
		return nil
	}
	d.counts.marked.Store(true)
	return d.onSupervisor((*supervisor).step)
}

// endImplicitStep ends a step that the program did not mark, if it is over. That it cannot is no
// reason to refuse the request after it.
func (d *Device) endImplicitStep() {
	d.host.Lock()
	over := d.host.Logged() >= pool.ImplicitStep
	d.host.Unlock()
	if !over {
		return
	}
	if err := d.onSupervisor((*supervisor).step); err != nil {
		d.log.Error("a step that was found in the requests could not be ended", zap.Error(err))
	}
}
