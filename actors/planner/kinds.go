package planner

import (
	"slices"

	"stalloc/actors/host"
	"stalloc/actors/step"
	"stalloc/internal/mem"
	"stalloc/plan"
)

// kind is one kind of step: training, an evaluation. Its steps ask for the same, request for
// request. What asks for anything else is another kind: a plan that is served to a step it was
// not made for costs memory and driver calls, however close it comes.
type kind struct {
	step     plan.Step      // the last one, and when its blocks were freed
	schedule *host.Schedule // for the next; nil: none are planned
	proven   bool           // a step of it came again
	// it is an earlier run's, and was not seen in this one: served after a step that contains it
	loaded   bool
	saved    bool // later runs will know it
	tries    int  // plans in a row that did not serve
	cooldown int  // steps to let pass before the next plan
}

// kinds is what is known of the steps of one arena.
type kinds struct {
	all     []*kind // the last seen last
	last    *kind   // of the last step
	serving *kind   // whose schedule is served; nil: none
	since   uint64  // what tells the supervisor to serve them
	others  int     // steps in a row that were of another kind than the one served
}

const (
	mostKinds = 4
	// A plan serves if so much of a step's requests lies at its planned offset.
	servesWell = 0.95
	// So many steps in a row that are another kind than the one that is served end that.
	mostOthers = 2
)

// recognize returns the kind of a step: one whose steps asked for the same, or a new one.
func (h *kinds) recognize(now plan.Step) *kind {
	for i, k := range slices.Backward(h.all) {
		same := func(a, b plan.Request) bool { return a.Size == b.Size }
		if slices.EqualFunc(k.step.Requests, now.Requests, same) {
			h.all = append(slices.Delete(h.all, i, i+1), k)
			k.step, k.proven, k.loaded = now, true, false
			return k
		}
	}
	k := &kind{step: now}
	h.add(k)
	return k
}

func (h *kinds) add(k *kind) {
	if len(h.all) == mostKinds {
		h.all = slices.Delete(h.all, 0, 1)
	}
	h.all = append(h.all, k)
}

// contains reports whether a step asked for all that another did, in its order, and for at most
// as much again.
func contains(all, some []plan.Request) bool {
	if len(all) > 2*len(some) {
		return false
	}
	n := 0
	for _, r := range all {
		if n < len(some) && some[n].Size == r.Size {
			n++
		}
	}
	return n == len(some)
}

// due reports whether a step is to be planned: one that came again, unless its plan serves. One
// that does not is withdrawn. began says that the step was served by its kind's.
func (h *kinds) due(k *kind, hits int, began bool) bool {
	switch {
	case h.serving != nil && h.serving != k:
		h.others++
	case began:
		h.others = 0
	}
	if began && k.schedule != nil && k.fails(hits) {
		k.schedule = nil
	}
	return k.schedule == nil && k.proven && k.rested()
}

// fails reports whether a kind's plan did not serve a step.
func (k *kind) fails(hits int) bool {
	if float64(hits) < servesWell*float64(len(k.step.Requests)) {
		return true
	}
	k.tries, k.cooldown = 0, 0
	return false
}

// rested reports whether it may be tried again, less and less often.
func (k *kind) rested() bool {
	if k.cooldown > 0 {
		k.cooldown--
		return false
	}
	k.tries++
	k.cooldown = 1<<min(k.tries-1, 6) - 1
	return true
}

// next returns the kind whose schedule is served from the next boundary on, after a step of a
// kind: that one if the step before was of it, too; or else the one that is served, for a while.
func (h *kinds) next(k *kind) *kind {
	again := k == h.last
	h.last = k
	if again && k.schedule != nil {
		return k
	}
	if h.serving != nil && h.serving.schedule != nil && h.others < mostOthers {
		return h.serving
	}
	if k.schedule != nil {
		return k
	}
	for _, l := range slices.Backward(h.all) {
		if l.loaded && l.schedule != nil && h.others < mostOthers {
			return l
		}
	}
	return nil
}

func (k *kind) served() *host.Schedule {
	if k == nil {
		return nil
	}
	return k.schedule
}

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
