package actors

import (
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/wish"
)

// supervisor is the actor that owns the life of the device's plans and streams.
type supervisor struct {
	d         *Device
	ready     *planReady   // carried out at the next boundary
	wishes    *wishesReady // the same
	preparing *preparing   // the arenas of a plan that is ready
	start     *plan.Plan   // an earlier run's: given to each stream as it appears
	earlier   *plan.Plan   // the same, for good
	held      mem.Bytes    // physical memory when the first plan became active, or the largest arenas since
}

// boundMore is the part of the memory that the pool may hold beyond that under a plan, and
// boundLeast what it may in any case: a stream that appears takes a handle or two. More
// would save hits of steps whose plan is a little short, and is held for good.
const (
	boundMore  = 256
	boundLeast = 8 * mem.MiB
)

// bound limits the pool until the next boundary: before it takes noticeably more
// memory than the steps needed so far and the plan began with, arenas that stand
// idle are given up.
func (s *supervisor) bound() {
	most := 0
	if slices.ContainsFunc(*s.d.lanes.Load(), func(l *lane) bool { return l.active.Load() }) {
		most = s.most(s.held, boundMore)
	}
	s.d.most.Store(int64(most))
}

// most is how many handles arenas and pool may hold together: for what steps needed
// lately or what was held, and one part in so many more.
func (s *supervisor) most(held mem.Bytes, part mem.Bytes) int {
	most := max(mem.Bytes(s.d.room.Load()), held)
	return int((most + max(most/part, boundLeast)) / mem.HandleSize)
}

// mostWith is the same where a stream's arena is to be as large as said. A step may end
// where much is live that the next one frees, all its gradients for example. Beside an
// arena that has room for them they would cost their memory twice: such a boundary is not
// the one to make it at. Zero: no bound, as long as no step has been looked at.
func (s *supervisor) mostWith(l *lane, size mem.Bytes) int {
	floor := mem.Bytes(s.d.floor.Load())
	if floor == 0 {
		return 0
	}
	now := &poolRequest{verb: verbStats}
	s.d.ask(s.d.pool, now)
	held, arenas := s.held, now.stats.Arenas+size
	if held == 0 {
		held = now.stats.Reserved
	}
	if l.arena != nil {
		arenas -= l.arena.bytes()
	}
	inside := s.d.host.Load() - now.stats.Load // of the load, in arenas
	beside := max(floor-inside, 0)
	return s.most(max(held, beside+arenas), slackAny)
}

// Receive implements actor.Actor. It answers whatever happens.
func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case question:
		m.slot().reply(s.answer(m))
	case *wishesReady:
		s.wishes = m
		if s.d.opts.Inline {
			s.wishAll()
		}
	case *planReady:
		s.ready = m
		if s.d.opts.Inline { // planned at this very boundary
			s.activate()
		}
	}
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
		s.admit()
	case *startRequest:
		what = "start with a saved plan"
		return s.begin(m)
	case *growRequest:
		what = "more memory for an arena"
		s.grow(m.lane, m.need)
	case *lostRequest:
		what = "giving up a plan within a step"
		s.giveUp(m)
	}
	return nil
}

// giveUp dissolves the arenas that the message means.
func (s *supervisor) giveUp(m *lostRequest) {
	for _, l := range *s.d.lanes.Load() {
		if m.lane == l || m.lane == nil && l.idle() >= m.idle {
			m.gave = s.dissolve(l) || m.gave
		}
	}
}

// step is a boundary of the device: every stream's, the pool's, and then the planner
// hears what was observed.
func (s *supervisor) step() error {
	d := s.d
	lanes := d.adopt()
	ended := &stepEnded{found: !d.auto.marked.Load(), steps: make([]observed, 0, len(lanes))}
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
	ended.pending = end.stats.StepPending
	ended.spaces = end.spaces
	if d.generation.Load() == 0 {
		ended.reserved = end.stats.Reserved
	}
	d.steps.Add(1)
	s.wishAll()
	if errors.Is(end.err, ErrBroken) { // no plan can have an arena any more
		return nil
	}
	s.activate()
	for _, l := range lanes {
		s.retire(l)
		if l.plan != nil && l.serving == nil { // dissolved within the step
			s.offer(l, l.plan, 0)
		}
		s.complete(l)
	}
	s.bound()
	if s.ready != nil {
		ended.waits = s.ready.plan
	}
	if d.planner != nil {
		d.observed(ended)
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
		if ps := part(s.start, l.ordinal); ps != nil && s.offer(l, ps, 0) && s.d.generation.Load() == 0 {
			s.activated(s.start)
		}
	}
}

// begin serves an earlier run's plan in the middle of the first segment.
func (s *supervisor) begin(m *startRequest) error {
	ps := part(m.plan, m.lane.ordinal)
	if ps == nil || s.d.generation.Load() > 0 || s.d.steps.Load() > 0 {
		return errors.New("it comes too late, or serves nothing on the first stream")
	}
	if len(m.skip) > 0 {
		rest, same := ps.Behind(m.skip)
		if !same || rest.Arena == 0 {
			return errors.New("it begins with other requests than this run")
		}
		m.plan = &plan.Plan{Key: m.plan.Key, Streams: slices.Clone(m.plan.Streams)}
		ps = part(m.plan, m.lane.ordinal)
		*ps = *rest
	}
	s.earlier = m.plan
	if err := s.install(m.lane, ps, 0); err != nil {
		return err
	}
	s.start = m.plan
	s.d.late.expect(m.plan)
	for _, l := range s.d.adopt() {
		if ps := part(m.plan, l.ordinal); ps != nil && l != m.lane {
			s.offer(l, ps, 0)
		}
	}
	s.d.latest.Store(m.plan)
	s.activated(m.plan)
	if s.d.planner != nil {
		s.d.root.Send(s.d.planner, &planLoaded{plan: m.plan})
	}
	return nil
}

// activate replaces the plan that is served by the one that is ready, or by none.
// Blocks stay where they are.
func (s *supervisor) activate() {
	if s.ready == nil || !s.prepared(s.ready.plan) {
		return
	}
	p, first, tuning := s.ready.plan, s.ready.first, s.ready.tuning
	s.ready, s.start = nil, nil
	served := false
	for _, l := range s.d.adopt() {
		if ps := part(p, l.ordinal); ps != nil {
			l.tuning = tuning
			served = s.offer(l, ps, first) || served
		} else {
			s.withdraw(l)
		}
	}
	if served {
		s.activated(p)
	}
}

// part returns the part of a plan for one stream, nil if it has none.
func part(p *plan.Plan, ordinal int) *plan.Stream {
	if p == nil {
		return nil
	}
	for i := range p.Streams {
		if ps := &p.Streams[i]; ps.Ordinal == ordinal && ps.Arena > 0 {
			return ps
		}
	}
	return nil
}

// withdraw stops serving a stream from a plan.
func (s *supervisor) withdraw(l *lane) {
	l.plan = nil
	s.dissolve(l)
}

// activated notes that a plan has begun to serve.
func (s *supervisor) activated(p *plan.Plan) {
	generation := s.d.generation.Add(1)
	now := &poolRequest{verb: verbStats}
	s.d.ask(s.d.pool, now)
	if s.held == 0 {
		s.held = now.stats.Reserved
	}
	s.held = max(s.held, arenas(p)) // an earlier run's are still to grow
	s.bound()
	s.d.log.Info("plan active", zap.Uint64("generation", generation), zap.Int("streams", len(p.Streams)))
}

// offer installs a stream's plan, or leaves the stream as it is.
func (s *supervisor) offer(l *lane, ps *plan.Stream, first int) bool {
	err := s.install(l, ps, first)
	l.busy = isRefused(err, engine.RefusedBusy)
	much := isRefused(err, engine.RefusedMost)
	if much {
		s.d.log.Info("a plan waits for the next boundary: more is live at this one than it knows of", zap.Int("stream", ps.Ordinal), zap.Stringer("arena", ps.Arena))
	}
	if errors.Is(err, errPrologue) || l.busy || much {
		l.plan = ps // to be offered again at the next boundary
		return false
	}
	if err != nil {
		s.d.log.Warn("a plan is not served on one stream", zap.Int("stream", ps.Ordinal), zap.Stringer("arena", ps.Arena), zap.Error(err))
	}
	return err == nil
}

// wishAll has the streams wish what the planner has decided.
func (s *supervisor) wishAll() {
	if s.wishes == nil {
		return
	}
	for _, l := range s.d.adopt() {
		for small := range l.wishes {
			if entries, ok := s.wishes.spaces[spaceKey{l.port.ID(), small == 1}]; ok {
				l.port.Lock()
				l.wishes[small] = wish.New(entries)
				l.port.Unlock()
			}
		}
	}
	s.wishes = nil
	s.d.generation.Add(1)
}
