package period

import "stalloc/internal/mem"

// Hooks decides which firing of an optimizer hook ends a training step. PyTorch
// calls the hook after every optimizer's step, and one training step may have
// several: of a generator and a discriminator, of parameter groups, or of one
// optimizer per parameter that steps during backward.
//
// Firings that belong together have few events between them, compared with the
// forward and backward passes in front of the first. So the last before a long
// gap ends the step: there the optimizers' temporaries are gone, while at the
// first the others' are still to come. Which one is the last is known from the
// groups before. The optimizers' identities are not needed.
//
// Optimizers that each have their own forward and backward pass count as steps
// of their own. The zero value is ready.
type Hooks struct {
	fired   mem.Tick // at the last firing
	began   mem.Tick // at the first of this group
	longest mem.Tick // the usual gap between groups, slow to fall
	inside  mem.Tick // the longest gap within this group
	count   int      // firings of this group
	sizes   [2]int   // of the last two groups, 0 if there were none
}

// apart: a gap separates groups if it is at least this fraction of the usual one
// between groups, and a group does not last longer than so many of them.
const apart = 4

// Fire takes a firing of the hook and reports whether it ends a step. now is the
// number of requests and frees so far, from the start of the run.
func (h *Hooks) Fire(now mem.Tick) (boundary bool) {
	gap := now - h.fired
	if h.inside > 0 && now-h.began >= apart*h.longest {
		// So long a group is none, even if its optimizers step all through
		// backward: the first gap was a long set-up, or the model has become
		// smaller. Its own gaps are the measure from now on.
		h.longest = max(h.inside, gap)
	}
	if gap >= h.longest/apart {
		h.longest = max(gap, h.longest-h.longest/apart)
		if h.count > 0 {
			h.sizes[0], h.sizes[1] = h.sizes[1], h.count
		}
		h.began, h.count, h.inside = now, 0, 0
	} else {
		h.inside = max(h.inside, gap)
	}
	h.fired = now
	h.count++
	return h.count == h.last()
}

// last returns which firing of a group is believed to be its last. Where the
// size of the groups alternates (an optimizer that steps every second time) it
// is the last that all of them have, so that no step goes without a boundary.
func (h *Hooks) last() int {
	if h.sizes[0] == 0 {
		return h.sizes[1]
	}
	return min(h.sizes[0], h.sizes[1])
}
