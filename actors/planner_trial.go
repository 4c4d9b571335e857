package actors

import (
	"slices"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// candidate is a plan and the kinds of step it was made for, by steady tape.
type candidate struct {
	plan   *plan.Plan
	others []*plan.Plan // other ways to plan the same, to be tried in this order
	kinds  []*kind
	from   []uint64 // versions of the kinds that it was made from
	made   int      // the segment it was made from
	tuning stream.Tuning
	memory mem.Bytes // that the step it was judged by would have taken
}

// varies reports whether steps of the plan are expected to vary.
func (c *candidate) varies() bool {
	return slices.ContainsFunc(c.plan.Streams, func(s plan.Stream) bool { return s.Varies() })
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

// try judges a candidate by the newest step. If steps vary it settles for the first
// plan and the first variant of matching that are acceptable.
func (p *planner) try(c *candidate) (v verdict, first int, err error) {
	ways := append([]*plan.Plan{c.plan}, c.others...)
	for i, way := range ways {
		if i+1 < len(ways) && p.tooLarge(arenas(way)) {
			continue
		}
		c.plan = way
		for _, c.tuning = range stream.Tunings {
			v, first, err = p.d.layouts.judge(c.plan, p.newest.steps, c.tuning)
			v.memory += p.newest.pending
			if err != nil || !c.varies() || p.acceptable(c, &v) {
				return v, first, err
			}
			if p.tooLarge(v.memory-v.memory/hopeful) || v.slots*hopeless < v.requests {
				break // no other variant makes up for that
			}
		}
	}
	return v, first, err
}

// Variants of matching differ by a few percent in what they take, and by some tens
// in what they serve. Trying one takes as long as serving a step.
const (
	hopeful  = 16
	hopeless = 2
)

func (p *planner) tooLarge(n mem.Bytes) bool {
	room := p.room.most()
	return n > room+room/slackAny
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
		then, _, err := p.d.layouts.judge(c.plan, k.steps, c.tuning)
		was, _, wasErr := p.d.layouts.judge(p.served.plan, k.steps, p.served.tuning)
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
