package actors

import (
	"slices"

	"stalloc/stream/wish"
)

// kind is one kind of step: training, an evaluation. Its steps ask for the same.
type kind struct {
	before []wish.Entry // the requests of the last one
	once   bool         // there was only one
	wishes *Reel        // for the next; nil: none are planned
	tries  int          // plans in a row that did not serve
	rest   int          // steps to let pass before the next plan
}

// habit is what is known about one space: the kinds of its steps.
type habit struct {
	kinds   []*kind // the last seen last
	last    *kind   // of the last step
	serving *kind   // whose wishes are served; nil: none
	since   uint64  // what tells the supervisor to serve them
}

const mostKinds = 4

// recognize returns the kind of a step: one whose last step asked for nearly the same, or a
// new one. It says how many of the requests agree.
func (h *habit) recognize(now []wish.Entry) (k *kind, agree int) {
	for _, first := range []bool{false, true} {
		for i, k := range slices.Backward(h.kinds) {
			if agree := k.agrees(now, first); agree > 0 {
				h.kinds = append(slices.Delete(h.kinds, i, i+1), k)
				k.once = false
				return k, agree
			}
		}
	}
	if len(h.kinds) == mostKinds {
		*h.kinds[0] = kind{} // it may be serving
		h.kinds = slices.Delete(h.kinds, 0, 1)
	}
	k = &kind{once: true}
	h.kinds = append(h.kinds, k)
	return k, 0
}

// agrees returns how many requests of a step agree with those of the last of a kind; zero:
// too few. The first of a kind may have had others besides, up to as many again: set-up, or
// the state of an optimizer.
func (k *kind) agrees(now []wish.Entry, first bool) int {
	least := alike * float64(max(len(now), len(k.before)))
	if first {
		if least = alike * float64(len(now)); !k.once || len(k.before) > 2*len(now) {
			return 0
		}
	}
	if float64(min(len(now), len(k.before))) < least {
		return 0
	}
	return matched(k.before, now, least)
}

// matched returns how many requests of a step are on a list; zero: fewer than least. A list of
// other sizes is long to look through, and given up once that is known.
func matched(list, now []wish.Entry, least float64) int {
	tape := wish.New(list)
	for _, e := range now {
		tape.Next(e.Size())
		if float64(len(now))-float64(tape.Missed) < least {
			return 0
		}
	}
	return int(tape.Matched)
}

// next returns the kind whose wishes are served from the next boundary on, behind a step of a
// kind: that one if the step before was of it, too; or else those that are served stay.
func (h *habit) next(k *kind) *kind {
	again := k == h.last
	if h.last = k; again && k.wishes != nil {
		return k
	}
	if h.serving != nil && h.serving.wishes != nil {
		return h.serving
	}
	for _, k := range slices.Backward(h.kinds) {
		if k.wishes != nil {
			return k
		}
	}
	return nil
}

// replan reports whether a kind that was seen before is to be planned. A plan that does not
// serve what agrees with the step before is made again, less and less often.
func (k *kind) replan(hits, agree int, began bool) bool {
	switch {
	case k.wishes == nil:
		return true
	case !began:
		return false
	case float64(hits) >= alike*float64(agree):
		k.tries, k.rest = 0, 0
		return false
	case k.rest > 0:
		k.rest--
		return false
	}
	k.tries++
	k.rest = 1 << min(k.tries, 6)
	return true
}

// reel is what serves a kind's steps; nil: nothing does.
func (k *kind) reel() *Reel {
	if k == nil {
		return nil
	}
	return k.wishes
}
