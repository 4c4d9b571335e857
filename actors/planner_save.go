package actors

import (
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
	mostFirst = 4
	// wellBefore is how many steps in a row a plan serves well before it is worth a
	// file.
	wellBefore = 2
)

// beginning is what the planner keeps for the next run.
type beginning struct {
	segments [][]*plan.Step
	lost     bool       // events are missing
	well     int        // steps in a row that were served well
	saved    *plan.Plan // whose kinds of step are in the file
}

// note takes in a segment.
func (b *beginning) note(steps []*plan.Step, usable bool) {
	if len(b.segments) < mostFirst && !b.lost {
		b.segments = append(b.segments, steps)
		b.lost = !usable
	}
}

// prologue joins the segments before the first one that the plan serves.
func (b *beginning) prologue(steady *plan.Plan, tuning stream.Tuning) (joined []*plan.Step, boundaries int) {
	joined, boundaries = slices.Clone(b.segments[0]), 1
	for _, steps := range b.segments[1:] {
		if v, _, err := judge(steady, steps, tuning); err == nil && v.hits() {
			break
		}
		for ordinal, s := range steps {
			if ordinal == len(joined) {
				joined = append(joined, nil)
			}
			joined[ordinal] = plan.Join(joined[ordinal], s)
		}
		boundaries++
	}
	return joined, boundaries
}

// keep saves a plan of the whole run if it is time to.
func (p *planner) keep(well bool) {
	b := &p.beginning
	if b.well++; !well || !p.newest.v.hits() {
		b.well = 0
	}
	if p.d.opts.Cache == "" || b.lost || b.well < wellBefore || p.served.plan == b.saved || len(p.served.kinds) == 0 {
		return
	}
	b.saved = p.served.plan
	run := runOf(p.served.kinds)
	segments, steady, tuning := b.segments, p.served.plan, p.served.tuning
	save := func() {
		start := time.Now()
		whole := beginning{segments: segments}
		run.Prologue, run.Boundaries = whole.prologue(steady, tuning)
		path, err := p.d.save(run, steady)
		if err != nil {
			p.d.log.Warn("the plan is not kept for the next run", zap.Error(err))
			return
		}
		p.d.log.Info("the plan is kept for the next run", zap.String("file", path), zap.Int("boundaries of the prologue", run.Boundaries),
			zap.Duration("took", time.Since(start)))
	}
	if p.d.opts.Inline {
		save()
		return
	}
	p.d.background.Go(save)
}

// save plans a whole run and writes the plan to the cache.
func (d *Device) save(run plan.Run, steady *plan.Plan) (path string, err error) {
	made, err := makePlan(run, plan.Options{Last: steady})
	if err != nil {
		return "", err
	}
	var first []mem.Bytes
	for _, s := range run.Prologue[:min(1, len(run.Prologue))] {
		first = s.FirstRequests(plan.KeyRequests)
	}
	key := plan.Signature(run.Prologue)
	for _, steps := range run.Steady {
		key = key*31 + plan.Signature(steps)
	}
	return newCache(d.opts.Cache).store(made, first, key)
}
