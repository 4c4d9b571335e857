package actors

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream"
)

// Once a plan has served a few steps well, the run is planned once more as a
// whole, set-up and first step included, for the next run of the same program.

const (
	// mostFirst is how many segments of the beginning are kept, until it is clear
	// which of them are steady steps.
	mostFirst = 5
	// mostKept is how many kinds of step are planned for the next run.
	mostKept = 8
	// wellBefore is how many steps in a row a plan serves well before it is worth a
	// file.
	wellBefore = 2
)

// beginning is what the planner keeps for the next run.
type beginning struct {
	segments   [][]*plan.Step
	boundaries int         // how many of them the prologue spans; 0: not known yet
	left       []survivors // by stream: what of the segments is still live
	lost       bool        // events are missing
	late       int         // segments before the boundaries moved; 0: they did not
	kinds      []typical   // that plans have served
	well       int         // steps in a row that were served well
	saved      *plan.Plan  // the plan that was served when the file was written
	persists   mem.Bytes   // survivors at that time
}

// typical is the last step that was served well as one of a kind. The step that the
// planner knows the kind by may have been the first of the run, which made more than
// the others do.
type typical struct {
	kind      *kind
	signature uint64 // of the step
	steps     []*plan.Step
	earlier   [][]*plan.Step // if it varies
	served    int            // how often it was
}

// note takes in a segment.
func (b *beginning) note(steps []*plan.Step, usable bool) {
	segment := -1
	if len(b.segments) < mostFirst && !b.lost {
		segment = len(b.segments)
		b.segments = append(b.segments, steps)
		b.lost = !usable
	}
	for ordinal, s := range steps {
		if ordinal == len(b.left) {
			b.left = append(b.left, nil)
		}
		if s != nil {
			b.left[ordinal] = b.left[ordinal].after(s, segment)
		}
	}
}

// served takes in a step that was served well.
func (b *beginning) served(k *kind, steps []*plan.Step) {
	t := b.know(k, steps)
	t.kind, t.signature, t.steps, t.earlier = k, plan.Signature(steps), steps, nil
	if k.varies() {
		t.earlier = slices.Clone(k.earlier)
	}
	t.served++
}

// know returns what is kept of a kind. Kinds that have not come for long are still
// known: the next run begins with those that this one began with.
func (b *beginning) know(k *kind, steps []*plan.Step) *typical {
	signature := plan.Signature(steps)
	at := slices.IndexFunc(b.kinds, func(t typical) bool { return t.kind == k || t.signature == signature })
	if at >= 0 {
		return &b.kinds[at]
	}
	if len(b.kinds) == mostKept {
		rarest := slices.MinFunc(b.kinds, func(x, y typical) int { return x.served - y.served })
		b.kinds = slices.DeleteFunc(b.kinds, func(t typical) bool { return t.signature == rarest.signature })
	}
	b.kinds = append(b.kinds, typical{kind: k, signature: signature, steps: steps})
	return &b.kinds[len(b.kinds)-1]
}

// first reports whether the step was served from a prologue.
func (o observed) first() bool {
	return o.part != nil && o.order < len(o.part.Tapes) && o.part.Tapes[o.order].Kind == plan.Prologue
}

// stale reports whether what was written is not what would be written now: another
// plan is served, or much that was taken to persist has ended since.
func (b *beginning) stale(served *plan.Plan) bool {
	return served != b.saved || b.bytes() < b.persists-b.persists/slackAny
}

// span finds out how many segments are the prologue: those before the first that the
// plan would have served and that left hardly a block for good.
func (b *beginning) span(served *candidate) int {
	if b.late > 0 {
		return b.late
	}
	var made layouts
	for k, steps := range b.segments[1:] {
		v, _, err := made.judge(served.plan, steps, served.tuning)
		if err == nil && v.hits() && b.leftBy(k+1)*missesBelow <= v.requests {
			return k + 1
		}
	}
	return len(b.segments)
}

// run is what the plan for the next run is made from. The kinds are in the order in
// which they came: the first is what the next run does behind the prologue.
func (b *beginning) run(served *candidate) plan.Run {
	if b.boundaries == 0 {
		b.boundaries = b.span(served)
	}
	r := plan.Run{Boundaries: b.boundaries, Envelope: envelopes(served.plan), Late: served.plan.Late}
	for _, steps := range marked(b.segments[:b.boundaries], b.left) {
		for ordinal, s := range steps {
			if ordinal == len(r.Prologue) {
				r.Prologue = append(r.Prologue, nil)
			}
			r.Prologue[ordinal] = plan.Join(r.Prologue[ordinal], s)
		}
	}
	for _, k := range served.kinds {
		b.know(k, k.steps)
	}
	for _, t := range b.kinds {
		r.Steady, r.Earlier = append(r.Steady, t.steps), append(r.Earlier, t.earlier)
	}
	return r
}

// envelopes reports whether positions that vary have slots in a plan.
func envelopes(p *plan.Plan) bool {
	return slices.ContainsFunc(p.Streams, func(s plan.Stream) bool {
		return slices.ContainsFunc(s.Slots, func(slot plan.Slot) bool { return slot.Spread > 0 && !slot.Pool })
	})
}

// keep saves a plan of the whole run if it is time to.
func (p *planner) keep(m *stepEnded, well bool) {
	b := &p.beginning
	if p.d.opts.Cache == "" || b.lost || slices.ContainsFunc(m.steps, observed.first) {
		return
	}
	if b.well++; !well || !p.newest.v.hits() {
		b.well = 0
		return
	}
	b.served(p.newest.kind, p.newest.steps)
	if b.well < wellBefore || !b.stale(p.served.plan) || p.served.plan.Late != p.d.late.at() {
		return
	}
	b.saved, b.persists = p.served.plan, b.bytes()
	run, served := b.run(p.served), p.served
	save := func() {
		start := time.Now()
		path, err := p.d.save(run, served)
		if err != nil {
			p.d.log.Info("the plan is not kept for the next run", zap.Error(err))
			return
		}
		p.d.log.Info("the plan is kept for the next run", zap.String("file", path), zap.Int("boundaries of the prologue", run.Boundaries),
			zap.Int("kinds of step", len(run.Steady)), zap.Duration("took", time.Since(start)))
	}
	if p.d.opts.Inline {
		save()
		return
	}
	p.d.background.Go(save)
}

// savedMore is the part of the memory that a saved plan may need beyond what the run reserved.
const savedMore = 256

// save plans a whole run and writes the plan to the cache, in place of what an
// earlier run with the same prologue has left there. The next run shall not need
// more memory than this one did, but for a 256th, which is what a tight pool saves of
// a plan's gaps; so as long as the plan would, it is made for one kind of step less:
// the one that came last.
func (d *Device) save(run plan.Run, served *candidate) (path string, err error) {
	m := &poolRequest{verb: verbStats}
	if d.ask(d.pool, m); m.err != nil {
		return "", m.err
	}
	var made *plan.Plan
	for kinds := len(run.Steady); ; kinds-- {
		run.Steady = run.Steady[:kinds]
		if made, err = makePlan(run, plan.Options{Last: served.plan}); err != nil {
			return "", err
		}
		need, err := needs(made, run, served.tuning)
		if err != nil {
			return "", err
		}
		if need <= m.stats.PeakReserved+max(m.stats.PeakReserved/savedMore, mem.HandleSize) {
			break
		}
		if kinds == 1 {
			return "", fmt.Errorf("with it the next run would need %v, and this one reserved %v", need, m.stats.PeakReserved)
		}
	}
	var first []mem.Bytes
	for _, s := range run.Prologue[:min(1, len(run.Prologue))] {
		first = s.FirstRequests(plan.KeyRequests)
	}
	return newCache(d.opts.Cache).store(made, first, plan.Signature(run.Prologue))
}

// needs returns the memory that a run takes which does what its plan was made
// from.
func needs(p *plan.Plan, run plan.Run, tuning stream.Tuning) (most mem.Bytes, err error) {
	var persists mem.Bytes // inherited by every steady step, and in the arena
	for i := range p.Streams {
		for _, slot := range p.Streams[i].Slots {
			if slot.Persist {
				persists += slot.Size
			}
		}
	}
	var made layouts
	for order, steps := range append([][]*plan.Step{run.Prologue}, run.Steady...) {
		v, _, err := made.judgeOrder(p, order, steps, tuning)
		if err != nil {
			return 0, err
		}
		if order > 0 {
			v.memory -= persists
		}
		beside := v.memory - arenas(p)
		most = max(most, arenas(p)+mem.RoundUp(beside, mem.HandleSize))
	}
	return most, nil
}
