package actors

import (
	"stalloc/internal/mem"
	"stalloc/plan"
)

// saver keeps the steps that come again for whoever saves a plan, and recalls those that a loaded
// one has. The size of handles is not kept: a run that began with it wasted more than one that knew
// nothing.
type saver struct {
	d     *Device
	plan  *plan.Plan // of an earlier run; nil: none
	times int        // that a plan was kept
}

// mostTimes bounds how often a run keeps a plan: a program may go on to have new kinds of steps.
const mostTimes = 8

// save keeps the steps that are planned, if one of them is new.
func (s *saver) save(known map[arenaKey]*kinds, order []mem.StreamID) {
	x := &plan.Plan{}
	fresh := false
	for _, id := range order {
		// small requests go where they lay, which a later run does not know
		h := known[arenaKey{id, false}]
		if h == nil {
			continue
		}
		for _, k := range h.all {
			if k.schedule != nil {
				fresh = fresh || !k.kept
				k.kept = true
				x.Steps = append(x.Steps, k.step)
			}
		}
	}
	if !fresh || s.times == mostTimes {
		return
	}
	s.times++
	place := func() {
		for i := range x.Steps {
			x.Steps[i] = x.Steps[i].Placed()
		}
		s.d.latest.Store(x)
	}
	if s.d.opts.Inline {
		place()
		return
	}
	s.d.background.Go(place)
}

// recall adds the kinds of steps that an earlier run knew of an arena. Where blocks wait for other
// streams, that run's lives tell nothing of this one's.
func (s *saver) recall(h *kinds, now *arenaStep) {
	if s.plan == nil {
		return
	}
	for _, x := range s.plan.Steps {
		if x.Stream == now.Stream && !x.Small && !now.small && !x.Late() {
			h.add(&kind{step: x, loaded: true, kept: true})
		}
	}
}
