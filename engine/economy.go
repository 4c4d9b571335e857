package engine

// Economy of the driver's time. Where blocks of few sizes wait for other streams, which
// of them are free together differs in every step, and a pool as tight as the load
// stitches a part of its memory anew in each: on the recorded pipeline of Megatron
// 8,000 maps, for ever. Begun with two hundredths more memory it settles, and then maps
// hardly anything. The same room given later is of little use: by then free memory is a
// patchwork of views.
//
// So if several steps in a row that repeat the one before stitch more than one handle in
// eight on average, the slack becomes Config.Economy, places are not kept any more, and
// the pool begins anew: what is free at the end of the step goes back to the driver. This
// never makes a request fail: when the device or Config.Limit gives no more handles, what
// is free is stitched, however large the slack.

// economy is what is known about that.
type economy struct {
	over     bool // it has been done
	stitched int  // pages that blocks of this step took from free handles
	steps    int  // in a row that repeat the one before
	sum      int  // of stitched in them
}

const (
	economySteps = 4
	economyMost  = 8 // one handle in so many may be stitched in a step
)

// economize looks at the step that ends and reports whether the pool is to begin
// anew. A step that does not repeat the last is no measure: what is new is stitched
// once. Nor is one in which an arena was there, because what a lost plan leaves to the
// pool is stitched once as well.
func (e *Engine) economize() bool {
	y := &e.economy
	pages := y.stitched
	y.stitched = 0
	if y.over || !e.hints.repeats() || e.hasArena() {
		y.steps, y.sum = 0, 0
		return false
	}
	y.steps++
	y.sum += pages
	if y.steps < economySteps {
		return false
	}
	y.over = economyMost*y.sum > y.steps*e.stats.Handles
	y.steps, y.sum = 0, 0
	if y.over {
		e.slack = max(e.slack, e.cfg.Economy)
		e.hints.follow = followNone
	}
	return y.over
}

// hasArena reports whether there is an arena, or what is left of one.
func (e *Engine) hasArena() bool {
	for i := range e.heaps {
		if e.heaps[i].views[arenaViews] != 0 {
			return true
		}
	}
	return false
}
