package actors

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// planner is the actor that turns observed steps into plans. It answers nobody,
// and its failing costs plans, never requests.
//
//	         step k           step k+1                boundary
//	making ─────────► trial ───────────► offered ───────────────► served
//	                    │ it serves badly                            │ so it does
//	                    ▼                                            ▼ now, twice
//	                 dropped                                     withdrawn
//
// A plan is offered only once a step that it was not made from has been replayed
// against it and would have been served well.
type planner struct {
	d         *Device
	recorders []plan.Recorder // by stream ordinal
	segments  int             // boundaries seen; the first segment may be set-up, or have it before the first step
	kinds     kinds
	room      room
	newest    newest
	beginning beginning

	making  bool
	trial   *candidate // made, not judged yet
	offered *candidate // not served yet
	served  *candidate
	dropped []uint64   // versions of the kinds that the last plan that was dropped was made from
	last    *plan.Plan // the last plan made or loaded, to warm-start the next from

	held     mem.Bytes // at the end of the first step that the served plan served
	patience int       // boundaries that the offered plan has left to begin to serve
	bad      int       // steps in a row that the served plan did not serve
	wasted   int       // plans made in a row for kinds of step that have not come again
	wait     int       // steps to let pass before another one
}

// candidate is a plan and the kinds of step it was made for, by steady tape.
type candidate struct {
	plan   *plan.Plan
	kinds  []*kind
	from   []uint64 // versions of the kinds that it was made from
	made   int      // the segment it was made from
	tuning stream.Tuning
	memory mem.Bytes // that a step it was judged by would have taken
}

// varies reports whether steps of the plan are expected to vary.
func (c *candidate) varies() bool {
	return slices.ContainsFunc(c.plan.Streams, func(s plan.Stream) bool { return s.Varies() })
}

// newPlanner returns a planner that knows of the plan the device starts with.
func newPlanner(d *Device, start *plan.Plan) *planner {
	p := &planner{d: d}
	if start != nil {
		p.loaded(start)
	}
	return p
}

// loaded takes in an earlier run's plan, which is served from now on.
func (p *planner) loaded(start *plan.Plan) {
	p.last, p.beginning.saved = start, start
	p.offered, p.patience = &candidate{plan: start, tuning: stream.Tunings[0]}, activation
	// The load that the plan was made for is still to come; until then its arena
	// is no waste.
	var load mem.Bytes
	for i := range start.Streams {
		load += start.Streams[i].LowerBound
	}
	p.room.note(load)
}

// newest is the step that ended last.
type newest struct {
	steps []*plan.Step
	kind  *kind
	v     verdict // as it was really served
	// Freed blocks of the pool held so much while other streams used them.
	pending mem.Bytes
	gone    bool // the step was lost to the served plan
}

// A plan for a kind of step that has come once may be for nothing, and some
// workloads never repeat: after a few such plans in a row each one makes the wait
// before the next twice as long, up to maxWait steps in which one would be
// welcome. A kind that comes again ends the row.
const (
	freely  = 2
	maxWait = 64
	// A plan is offered at most one boundary before it serves its first step, and
	// that step is observed one boundary later.
	activation = 3
	// A plan that costs much memory, or is lost, two steps in a row is withdrawn.
	badSteps = 2
)

// Receive implements actor.Actor.
func (p *planner) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			p.d.log.Error("the planner failed on one step and starts over with the next", zap.Any("panic", r))
			*p = planner{d: p.d, segments: 1, beginning: beginning{lost: true}}
		}
	}()
	switch m := ctx.Message().(type) {
	case *stepEnded:
		p.ended(ctx, m)
	case *solved:
		p.solved(m)
	case *refined:
		p.refined(m)
	case *planLoaded:
		p.loaded(m.plan)
	}
}

// ended takes in what all streams observed in a step.
func (p *planner) ended(ctx actor.Context, m *stepEnded) {
	steps, usable := p.record(m)
	p.segments++
	p.beginning.note(steps, usable)
	if m.found && p.segments == 1 {
		return // several steps: it takes that long to find the first
	}
	if !usable || requests(steps) == 0 {
		return
	}
	v := actual(m, steps)
	p.room.note(v.peak)
	p.follow(m)
	well := p.served != nil && v.serves(p.room.most())
	gone := slices.ContainsFunc(m.steps, func(o observed) bool { return o.gone })
	p.newest = newest{steps, p.kinds.note(steps, p.segments, p.servedAs(m, well && v.hits())), v, m.pending, gone}
	p.rate()
	p.bound()
	p.consider()
	if p.welcome(well) {
		p.make(ctx.Self())
	}
	p.keep(well)
}

// bound tells the device how much memory may be held before arenas that stand
// partly idle are given up: little more than what was needed before.
func (p *planner) bound() {
	most := mem.Bytes(0)
	if p.served != nil {
		most = max(p.room.most(), p.served.memory, p.held)
		most += most/slackAny + mem.HandleSize
	}
	p.d.most.Store(int64(most / mem.HandleSize))
}

func requests(steps []*plan.Step) (n int64) {
	for _, s := range steps {
		if s != nil {
			n += s.Requests()
		}
	}
	return n
}

// record feeds the recorders and closes their steps.
func (p *planner) record(m *stepEnded) (steps []*plan.Step, usable bool) {
	usable = true
	for i := range m.steps {
		o := &m.steps[i]
		for o.ordinal >= len(p.recorders) {
			p.recorders = append(p.recorders, plan.Recorder{})
		}
		r := &p.recorders[o.ordinal]
		for _, e := range o.events {
			switch e.Kind {
			case EventHit:
				r.Alloc(uint64(e.Addr), e.Size)
			case EventMiss:
				r.Alloc(uint64(e.Addr), e.Size)
				r.Miss(uint64(e.Addr))
			case EventFree:
				r.Free(uint64(e.Addr))
			case EventPin:
				r.Exclude(uint64(e.Addr))
			}
		}
		for o.ordinal >= len(steps) {
			steps = append(steps, nil)
		}
		steps[o.ordinal] = r.Boundary()
		usable = usable && !o.lost
	}
	return steps, usable
}

// follow learns from the observation which plan was served.
func (p *planner) follow(m *stepEnded) {
	switch serving := func(c *candidate) bool {
		return c != nil && slices.ContainsFunc(m.steps, func(o observed) bool { return o.part != nil && o.part == part(c.plan, o.ordinal) })
	}; {
	case serving(p.offered):
		p.served, p.offered, p.bad, p.held = p.offered, nil, 0, m.held
	case !serving(p.served):
		p.served = nil
	}
	if p.offered != nil {
		if p.patience--; p.patience == 0 { // there was no memory for its arena
			p.offered = nil
		}
	}
}

// servedAs returns the kind that a well-served step was taken for, nil if that is
// not known: by the stream with the most requests.
func (p *planner) servedAs(m *stepEnded, well bool) *kind {
	if !well {
		return nil
	}
	o := slices.MaxFunc(m.steps, func(a, b observed) int { return int(a.hits - b.hits) })
	if o.order >= len(p.served.kinds) {
		return nil
	}
	return p.served.kinds[o.order]
}

// rate keeps count of how the served plan does, and withdraws it if it only costs
// memory.
func (p *planner) rate() {
	v := &p.newest.v
	if p.d.opts.Always {
		return
	}
	if p.newest.kind.seen == 2 && !p.newest.kind.varies() {
		p.wasted, p.wait = 0, 0
	}
	if p.served == nil || !p.newest.gone && !v.over(p.room.most(), slackHits) {
		p.bad = 0
		return
	}
	if p.bad++; p.bad >= badSteps {
		p.d.log.Info("the steps are no longer like the plan; it is withdrawn", zap.Stringer("memory", v.memory), zap.Stringer("load", v.peak))
		p.d.root.Send(p.d.supervisor, &planReady{})
		p.served, p.bad = nil, 0
	}
}

// consider judges the plan on trial by the newest step, unless it was made from
// that one.
func (p *planner) consider() {
	c := p.trial
	if c == nil || c.made >= p.segments && !p.d.opts.Always {
		return
	}
	p.trial = nil
	v, first, err := p.try(c)
	if err == nil && (p.d.opts.Always || p.acceptable(c, &v) && p.better(c, &v)) {
		c.memory = v.memory
		p.offer(c, first)
		return
	}
	p.dropped = c.from
	p.d.log.Info("a plan is dropped: it would not serve the next step", zap.Int64("requests", v.requests), zap.Int64("misses", v.misses),
		zap.Stringer("memory", v.memory), zap.Stringer("load", v.peak), zap.Error(err))
}

// try judges a candidate by the newest step. If steps vary it also finds the
// variant of matching that serves it best: the first that is acceptable, in the
// order of how often they are.
func (p *planner) try(c *candidate) (v verdict, first int, err error) {
	for _, c.tuning = range stream.Tunings {
		v, first, err = judge(c.plan, p.newest.steps, c.tuning)
		v.memory += p.newest.pending
		if err != nil || !c.varies() || p.acceptable(c, &v) {
			return v, first, err
		}
	}
	return v, first, err
}

// acceptable reports whether a verdict allows a plan to be served. One of steps
// that vary will do a little worse at some steps to come, so less memory is excused.
func (p *planner) acceptable(c *candidate, v *verdict) bool {
	return v.serves(p.room.most()) && !(c.varies() && v.over(p.room.most(), slackAny))
}

// better reports whether a plan that would have served the newest step so is
// preferred to the one that did serve it.
func (p *planner) better(c *candidate, v *verdict) bool {
	now := &p.newest.v
	few := v.requests / missesBelow
	switch {
	case p.served == nil:
		return true
	case v.misses > now.misses+few || v.over(max(now.memory, p.room.most()), slackAny):
		return false
	case v.misses+few < now.misses || now.over(v.memory, slackHits):
		return true
	}
	// They serve this step alike: does the new plan serve another kind better? One
	// that came once counts as long as such kinds have mostly come again.
	for _, k := range c.kinds {
		if k.seen == 1 && p.wasted > freely {
			continue
		}
		then, _, err := judge(c.plan, k.steps, c.tuning)
		was, _, wasErr := judge(p.served.plan, k.steps, p.served.tuning)
		if err == nil && then.hits() && (wasErr != nil || !was.hits()) {
			return true
		}
	}
	return false
}

func (p *planner) offer(c *candidate, first int) {
	for i := range c.plan.Streams {
		s := &c.plan.Streams[i]
		p.d.log.Info("a plan is offered", zap.Int("stream", s.Ordinal), zap.Int("kinds of step", len(c.kinds)), zap.Int("slots", len(s.Slots)),
			zap.Stringer("arena", s.Arena), zap.Stringer("lower bound", s.LowerBound))
	}
	p.offered, p.patience = c, activation
	p.d.latest.Store(c.plan)
	p.d.root.Send(p.d.supervisor, &planReady{plan: c.plan, first: first, tuning: c.tuning})
}

// welcome decides whether the step that ended shall be planned.
func (p *planner) welcome(well bool) bool {
	if p.making || p.trial != nil || p.offered != nil {
		return false
	}
	if p.d.opts.Always {
		return true
	}
	if well && p.newest.v.hits() {
		return false
	}
	// A plan made again for the same kinds would miss again what this one misses.
	from := versions(p.kinds.worth(p.segments))
	if p.served != nil && slices.Equal(p.served.from, from) {
		return false
	}
	k := p.newest.kind
	again := k.seen > 1 && !k.varies() && !slices.Equal(p.dropped, from)
	return again || p.segments == 1 || p.rested()
}

// rested counts a step that a new plan would have been welcome in, and reports
// whether it is time to make one.
func (p *planner) rested() bool {
	if p.wait > 0 {
		p.wait--
		return false
	}
	if p.wasted++; p.wasted > freely {
		p.wait = min(1<<(p.wasted-freely-1), maxWait)
		p.wasted = min(p.wasted, 16)
	}
	return true
}

// make has the kinds of step there are planned in the background.
func (p *planner) make(self *actor.PID) {
	c := &candidate{kinds: p.kinds.worth(p.segments), made: p.segments}
	c.from = versions(c.kinds)
	run := runOf(c.kinds)
	p.making = true
	root, options := p.d.root, plan.Options{Last: p.last}
	solve := func() {
		m := &solved{candidate: c}
		start := time.Now()
		options.Descents = quickly
		c.plan, m.err = makePlan(run, options)
		m.took = time.Since(start)
		if !p.d.closing.Load() {
			root.Send(self, m)
		}
		if m.err != nil || tight(c.plan) || p.d.closing.Load() {
			return
		}
		options.Descents = 0
		if better, err := makePlan(run, options); err == nil && !p.d.closing.Load() {
			root.Send(self, &refined{candidate: &candidate{kinds: c.kinds, from: c.from, made: c.made, plan: better}})
		}
	}
	if p.d.opts.Inline {
		solve()
		return
	}
	p.d.background.Go(solve)
}

// makePlan plans a run. A bug in the solver costs a plan and not the program.
func makePlan(run plan.Run, options plan.Options) (made *plan.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the solver failed: %v", r)
		}
	}()
	return plan.MakeRun(run, options)
}

// refined takes in what the whole search found for a step that is hard to pack. It
// is worth another plan if it is noticeably smaller than the one that is served.
func (p *planner) refined(m *refined) {
	if p.served == nil || p.trial != nil || !slices.Equal(p.served.from, m.candidate.from) {
		return
	}
	if was, now := arenas(p.served.plan), arenas(m.candidate.plan); now+now/slackAny < was {
		m.candidate.made = p.segments
		p.trial = m.candidate
	}
}

func arenas(p *plan.Plan) (n mem.Bytes) {
	for i := range p.Streams {
		n += p.Streams[i].Arena
	}
	return n
}

// The first few orders nearly always reach the bound, in milliseconds. A step that
// is hard to pack is served from what they found while the whole search, which can
// take seconds, goes on.
const (
	quickly   = 24 // descents
	tightPart = 64 // a plan is tight if it is less than one part in so many above its bound
)

func tight(p *plan.Plan) bool {
	for i := range p.Streams {
		if s := &p.Streams[i]; s.Makespan > s.LowerBound+s.LowerBound/tightPart+mem.HandleSize {
			return false
		}
	}
	return true
}

func (p *planner) solved(m *solved) {
	p.making = false
	if m.err != nil {
		p.d.log.Warn("a step could not be planned", zap.Error(m.err))
		return
	}
	p.d.log.Debug("planned", zap.Duration("took", m.took), zap.Int("slots", m.candidate.plan.Slots()))
	if m.candidate.plan.Slots() == 0 {
		return
	}
	p.last, p.trial = m.candidate.plan, m.candidate
	p.consider() // steps may have ended while it was made
}
