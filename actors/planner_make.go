package actors

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
)

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
	run.Late = p.d.late.at()
	p.making = true
	root, options := p.d.root, plan.Options{Last: p.last}
	solve := func() {
		m := &solved{candidate: c}
		start := time.Now()
		options.Descents = quickly
		m.err = c.make(run, options)
		m.took = time.Since(start)
		hard := m.err == nil && len(c.others) == 0 && !tight(c.plan) // behind the message the planner changes it
		if !p.d.closing.Load() {
			root.Send(self, m)
		}
		if !hard || p.d.closing.Load() {
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

// make plans a run, in two ways if its steps vary: with slots for what varies, which
// serves more requests and may take more memory, and without.
func (c *candidate) make(run plan.Run, options plan.Options) (err error) {
	run.Envelope = slices.ContainsFunc(run.Earlier, func(e [][]*plan.Step) bool { return len(e) > 0 })
	if c.plan, err = makePlan(run, options); err != nil || !run.Envelope {
		return err
	}
	run.Envelope = false
	other, err := makePlan(run, options)
	c.others = append(c.others, other)
	return err
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
