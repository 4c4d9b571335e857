package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/plan"
)

// planner is the actor that turns observed steps into plans. It answers nobody,
// and its failing costs plans, never requests.
type planner struct {
	d         *Device
	recorders []plan.Recorder // by stream ordinal
	segments  int             // boundaries seen: the first segment is set-up
	busy      bool            // a solver is at work
	last      *plan.Plan      // the last plan offered
	offered   int             // steps left in which that plan may begin to serve
	wait      int             // steps to let pass before planning again
	backoff   int             // length of the next such wait
}

// Replanning starts when more than one request in replanAbove misses. A plan
// that did not mend that makes the next wait twice as long, up to maxBackoff
// steps: some workloads never repeat.
const (
	replanAbove = 100
	maxBackoff  = 64
	// A plan is ready at most one boundary before it serves its first step, and
	// that step is observed one boundary later.
	activation = 3
)

// Receive implements actor.Actor.
func (p *planner) Receive(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			p.d.log.Error("the planner failed on one step and goes on with the next", zap.Any("panic", r))
			p.recorders = nil
		}
	}()
	switch m := ctx.Message().(type) {
	case *stepEnded:
		p.ended(ctx, m)
	case *solved:
		p.solved(m)
	}
}

// ended takes in what all streams observed in a step.
func (p *planner) ended(ctx actor.Context, m *stepEnded) {
	steps, usable := p.record(m)
	p.segments++
	if p.segments == 1 || !usable || p.busy || !p.wanted(m) {
		return
	}
	p.busy = true
	self, root, options := ctx.Self(), p.d.root, plan.Options{Last: p.last}
	solve := func() {
		start := time.Now()
		made, err := plan.Make(steps, options)
		root.Send(self, &solved{plan: made, err: err, took: time.Since(start)})
	}
	if p.d.opts.Inline {
		solve()
	} else {
		go solve()
	}
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
			case EventHit, EventMiss:
				r.Alloc(uint64(e.Addr), e.Size)
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

// wanted decides whether the step that ended shall be planned.
func (p *planner) wanted(m *stepEnded) bool {
	var requests, misses, planned int64
	for i := range m.steps {
		o := &m.steps[i]
		requests += o.hits + o.misses
		misses += o.misses
		planned += o.planned
		if o.planned == 0 {
			requests += o.requests()
		}
	}
	if requests == 0 {
		return false
	}
	if planned == 0 {
		if p.offered > 0 { // to be judged by a step it has served
			p.offered--
			return false
		}
		return p.last == nil || p.rested()
	}
	p.offered = 0
	if misses*replanAbove <= requests {
		p.wait, p.backoff = 0, 0
		return false
	}
	return p.rested()
}

// rested counts a step that a new plan would have been welcome in, and reports
// whether it is time to make one.
func (p *planner) rested() bool {
	if p.wait > 0 {
		p.wait--
		return false
	}
	p.wait = p.backoff
	p.backoff = min(max(1, 2*p.backoff), maxBackoff)
	return true
}

func (p *planner) solved(m *solved) {
	p.busy = false
	if m.err != nil {
		p.d.log.Warn("a step could not be planned", zap.Error(m.err))
		return
	}
	if m.plan.Slots() == 0 {
		return
	}
	if err := m.plan.Validate(); err != nil {
		p.d.log.Error("the planner made an invalid plan; it is not served", zap.Error(err))
		return
	}
	for i := range m.plan.Streams {
		s := &m.plan.Streams[i]
		p.d.log.Info("planned", zap.Int("stream", s.Ordinal), zap.Int("slots", len(s.Slots)), zap.Stringer("arena", s.Arena),
			zap.Stringer("lower bound", s.LowerBound), zap.Duration("took", m.took))
	}
	p.last, p.offered = m.plan, activation
	p.d.latest.Store(m.plan)
	p.d.root.Send(p.d.supervisor, &planReady{plan: m.plan})
}
