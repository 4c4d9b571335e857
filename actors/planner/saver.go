package planner

import (
	"stalloc/actors/step"
	"stalloc/internal/mem"
	"stalloc/plan"
)

// saver keeps the steps that come again for whoever saves a plan, and recalls those of a loaded
// plan.
type saver struct {
	save   func(*plan.Plan)
	loaded *plan.Plan // of an earlier run; nil: none
	times  int        // that a plan was kept
}

// mostTimes bounds how often a run keeps a plan: a program may go on to have new kinds of steps.
const mostTimes = 8

// keep saves the steps that are planned, if one of them is new.
func (s *saver) keep(known map[step.Arena]*kinds, order []mem.StreamID) {
	x := &plan.Plan{}
	fresh := false
	for _, id := range order {
		// small requests go where they lay, which a later run does not know
		h := known[step.Arena{Stream: id}]
		if h == nil {
			continue
		}
		for _, k := range h.all {
			if k.schedule != nil {
				fresh = fresh || !k.saved
				k.saved = true
				x.Steps = append(x.Steps, k.step)
			}
		}
	}
	if !fresh || s.times == mostTimes {
		return
	}
	s.times++
	for i := range x.Steps {
		x.Steps[i] = x.Steps[i].Kept()
	}
	s.save(x)
}

// recall adds the kinds of steps that an earlier run knew of an arena. Where blocks wait for other
// streams, that run's lives tell nothing of this one's.
func (s *saver) recall(h *kinds, now *step.ArenaStep) {
	if s.loaded == nil {
		return
	}
	for _, x := range s.loaded.Steps {
		if x.Stream == now.Step.Stream && !now.Arena.Small && !x.Late() {
			h.add(&kind{step: x, loaded: true, saved: true})
		}
	}
}
