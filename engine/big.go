package engine

import "slices"

// Big blocks. Even where steps do not repeat, a few blocks come back in each: the
// logits, say, and what the loss makes of them, each perhaps a tenth of the memory. To
// stitch one anew takes the driver tens of milliseconds, and a page that two of them
// hold in turn is replaced twice. So they are kept out of each other's way, and out of
// that of others:
//
//   - In the second step a big block that the first had as well gets a private view
//     even where a free run would hold it. That run it would share with whatever is
//     placed by fit, which next time lies elsewhere.
//   - A private view that is free as it is comes before a free run of others.
//   - Other blocks are stitched from the handles of big views only when no others are
//     free.
//
// The second step is the first that has the whole load (first.go), so what is arranged
// there stays.

// bigPart: a block of one part in so many of the memory held is big. Few are, so that
// their views map little twice; and blocks of less than this are cheaper to replace than
// to arrange.
const bigPart = 16

// isBig reports whether so many units are a big block that may have a private view.
func (e *Engine) isBig(n unit) bool {
	pages := int(n >> pageShift)
	return e.privacy() && pages >= e.cfg.PatchPages && bigPart*pages >= e.stats.Handles
}

// privacy reports whether the request may have a private view.
func (e *Engine) privacy() bool {
	a := &e.act
	return e.cfg.PatchPages > 0 && a.list == largeViews && e.heaps[a.heap].pool == 0
}

// apart reports whether the request is a big one for which a private view is to be made
// now: it was there in the first step, and this is the second.
func (e *Engine) apart() bool {
	a := &e.act
	return e.first.steps == 1 && a.rung == rungFirst && a.hint != 0 &&
		e.hints.list[a.hint].at[0] != 0 && e.isBig(a.n)
}

// idle returns the smallest idle private view whose pages can serve the request as they
// are, a little larger at most; zero if there is none.
func (e *Engine) idle() uint32 {
	a := &e.act
	if !e.isBig(a.n) {
		return 0
	}
	pages := uint32((a.n + pageMask) >> pageShift)
	best := uint32(0)
	for x := e.heaps[a.heap].views[privateViews]; x != 0; x = e.views[x].next {
		v := &e.views[x]
		whole := v.blocks == 0 && !v.lost && v.free == int(v.n)
		if whole && v.n >= pages && v.n <= pages+pages/4 && (best == 0 || v.n < e.views[best].n) {
			best = x
		}
	}
	return best
}

// pickFree appends wholly free handles to e.picks until there are so many, those of big
// views last. A shared view takes those freed last. A private one takes those that have
// been free for longest: others had no use for them, and so may not have at this place
// of the next step either, when the view is wanted again as it is.
func (e *Engine) pickFree(c choice, whole int) {
	for _, big := range []bool{false, true} {
		from := len(e.picks)
		for x := e.heaps[e.act.heap].free; x != 0 && (c.private || len(e.picks) < whole); x = e.handles[x].link[prefix].next {
			if (e.handles[x].big > 0) == big && (c.view == 0 || e.views[c.view].free == 0 || !e.maps(c.view, x)) {
				e.picks = append(e.picks, x)
			}
		}
		if more := len(e.picks) - max(whole, from); more > 0 {
			e.picks = slices.Delete(e.picks, from, from+more)
		}
	}
}
