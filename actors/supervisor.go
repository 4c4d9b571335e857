package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/plan"
	"stalloc/stream"
)

// supervisor is the actor that owns the life of the device's plans and streams.
type supervisor struct {
	d     *Device
	ready *plan.Plan // activated at the next boundary
	start *plan.Plan // an earlier run's: given to each stream as it appears
}

// Receive implements actor.Actor.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *stepRequest:
		var err error
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("step boundary: %v", r)
			}
			m.reply(err)
		}()
		err = s.step()
	case *admitRequest:
		defer func() {
			var err error
			if r := recover(); r != nil {
				err = fmt.Errorf("first request of a stream: %v", r)
			}
			m.reply(err)
		}()
		s.admit()
	case *planReady:
		s.ready = m.plan
		if s.d.opts.Inline { // planned at this very boundary
			s.activate()
		}
	}
}

func (s *supervisor) step() error {
	d := s.d
	lanes := d.adopt()
	ended := &stepEnded{steps: make([]observed, 0, len(lanes))}
	for _, l := range lanes {
		b := &boundary{}
		d.ask(l.pid, b)
		if b.err != nil {
			d.log.Error("a stream could not end its step", zap.Int("stream", l.ordinal), zap.Error(b.err))
			b.observed.ordinal, b.observed.lost = l.ordinal, true
		}
		ended.steps = append(ended.steps, b.observed)
	}
	end := &poolRequest{verb: verbBoundary}
	d.ask(d.pool, end)
	d.steps.Add(1)
	for _, l := range lanes {
		s.retire(l)
	}
	s.activate()
	if d.planner != nil {
		d.root.Send(d.planner, ended)
	}
	return end.err
}

// admit takes in the streams that have appeared, and gives them their part of
// the plan of an earlier run.
func (s *supervisor) admit() {
	known := len(*s.d.lanes.Load())
	lanes := s.d.adopt()
	if s.start == nil {
		return
	}
	for _, l := range lanes[known:] {
		for i := range s.start.Streams {
			if ps := &s.start.Streams[i]; ps.Ordinal == l.ordinal && s.offer(l, ps) && s.d.generation.Load() == 0 {
				s.activated(s.start)
			}
		}
	}
}

// retire frees the arenas whose last block is gone.
func (s *supervisor) retire(l *lane) {
	l.port.Lock()
	empty := l.dropEmpty()
	l.port.Unlock()
	for _, a := range empty {
		s.d.forget(a)
		l.port.Drop(a.tape)
		free := &freeRequest{addr: a.base, arena: true}
		if s.d.ask(s.d.pool, free); free.err != nil {
			s.d.log.Error("an arena could not be given back", zap.Error(free.err))
		}
	}
}

// activate replaces the plan that is served by the one that is ready. What the
// old arenas hold stays where it is; empty ones give their handles to the new
// arenas without a call to unmap them.
func (s *supervisor) activate() {
	p := s.ready
	if p == nil {
		return
	}
	s.ready, s.start = nil, nil
	lanes := s.d.adopt()
	for _, l := range lanes {
		if l.serving == nil {
			continue
		}
		l.port.Lock()
		l.port.Serve(nil)
		l.retiring = append(l.retiring, l.serving)
		l.serving = nil
		l.active.Store(false)
		l.port.Unlock()
		s.retire(l)
	}
	served := false
	for i := range p.Streams {
		ps := &p.Streams[i]
		if ps.Ordinal < len(lanes) && s.offer(lanes[ps.Ordinal], ps) {
			served = true
		}
	}
	if served {
		s.activated(p)
	}
}

func (s *supervisor) activated(p *plan.Plan) {
	generation := s.d.generation.Add(1)
	s.d.log.Info("plan active", zap.Uint64("generation", generation), zap.Int("streams", len(p.Streams)))
}

// offer installs a stream's plan, or leaves the stream to the pool.
func (s *supervisor) offer(l *lane, ps *plan.Stream) bool {
	if len(ps.Slots) == 0 {
		return false
	}
	err := s.install(l, ps)
	if err != nil {
		s.d.log.Warn("a plan is not served on one stream; its requests go to the pool",
			zap.Int("stream", ps.Ordinal), zap.Stringer("arena", ps.Arena), zap.Error(err))
	}
	return err == nil
}

func (s *supervisor) install(l *lane, ps *plan.Stream) error {
	layout, err := layoutOf(ps)
	if err != nil {
		return err
	}
	request := &allocRequest{size: ps.Arena, stream: l.port.ID(), whole: true}
	if s.d.ask(s.d.pool, request); request.err != nil {
		return request.err
	}
	a := &arena{lane: l, base: request.addr, size: ps.Arena, prologue: boundariesOf(ps)}
	a.tape = l.port.Build(layout, a.base, a.size)
	s.d.remember(a)
	l.port.Lock()
	l.serving = a
	l.active.Store(true)
	l.port.Serve(a.tape)
	l.port.Unlock()
	return nil
}

// layoutOf lays a stream's plan out for serving.
func layoutOf(ps *plan.Stream) (*stream.Layout, error) {
	slots := make([]stream.Slot, len(ps.Slots))
	for i, s := range ps.Slots {
		slots[i] = stream.Slot{Offset: s.Offset, Size: s.Size, Persist: s.Persist, Pool: s.Pool}
	}
	orders := make([][]int32, len(ps.Tapes))
	for t, tape := range ps.Tapes {
		orders[t] = make([]int32, len(tape.Entries))
		for i, e := range tape.Entries {
			orders[t][i] = int32(e)
		}
	}
	return stream.Lay(slots, orders...)
}

// boundariesOf returns how many step boundaries the first tape spans before the
// steady one begins: set-up ends with one, the first step with another.
func boundariesOf(ps *plan.Stream) int {
	if len(ps.Tapes) > 1 && ps.Tapes[0].Kind == plan.Prologue {
		return 2
	}
	return 0
}
