package actors

import (
	"slices"

	"stalloc/internal/mem"
	"stalloc/stream/wish"
)

// kind is one kind of step: training, an evaluation. Its steps ask for the same.
type kind struct {
	before []wish.Entry // the requests of the last one
	ends   []mem.Tick
	wishes []wish.Entry // for the next; nil: none are planned
	tries  int          // plans in a row that did not serve
	rest   int          // steps to let pass before the next plan
}

// habit is what is known about one space: the kinds of its steps, and their order.
type habit struct {
	kinds   []*kind // the last seen last
	past    []*kind // of the last steps; the latest last
	serving *kind   // whose wishes are served; nil: none
	since   uint64  // what tells the supervisor to serve them
}

const (
	mostKinds = 4
	mostPast  = 64
)

// recognize returns the kind of a step: one whose last step asked for nearly the same, or a
// new one. It says how many of the requests agree.
func (h *habit) recognize(now []wish.Entry) (k *kind, agree int) {
	for i := len(h.kinds) - 1; i >= 0; i-- {
		k := h.kinds[i]
		most := max(len(now), len(k.before))
		if float64(min(len(now), len(k.before))) < alike*float64(most) {
			continue
		}
		tape := wish.New(k.before)
		for _, e := range now {
			tape.Next(e.Size())
		}
		if float64(tape.Matched) >= alike*float64(most) {
			h.kinds = append(slices.Delete(h.kinds, i, i+1), k)
			return k, int(tape.Matched)
		}
	}
	if len(h.kinds) == mostKinds {
		*h.kinds[0] = kind{} // the past still knows it by its address
		h.kinds = slices.Delete(h.kinds, 0, 1)
	}
	k = &kind{}
	h.kinds = append(h.kinds, k)
	return k, 0
}

// note adds a step to the past.
func (h *habit) note(k *kind) {
	if h.past = append(h.past, k); len(h.past) > mostPast {
		h.past = slices.Delete(h.past, 0, 1)
	}
}

// next returns the kind of which the step is that comes behind so many more, as far as
// there are wishes for it: what came where the steps before were the most like the last
// ones. Else the kind that is served stays.
func (h *habit) next(behind int) *kind {
	past := slices.Clone(h.past)
	for range behind + 1 {
		past = append(past, following(past))
	}
	for _, k := range []*kind{past[len(past)-1], h.serving} {
		if k != nil && k.wishes != nil && slices.Contains(h.kinds, k) {
			return k
		}
	}
	for i := len(h.kinds) - 1; i >= 0; i-- {
		if h.kinds[i].wishes != nil {
			return h.kinds[i]
		}
	}
	return nil
}

// following returns what came behind the longest end of a sequence that it has had before.
func following(past []*kind) *kind {
	best, longest := past[len(past)-1], 0
	for i := len(past) - 2; i >= 0; i-- {
		n := 0
		for n <= i && past[i-n] == past[len(past)-1-n] {
			n++
		}
		if n > longest {
			best, longest = past[i+1], n
		}
	}
	return best
}
