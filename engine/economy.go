package engine

// Economy of the driver's time. Where blocks of few sizes wait for other streams,
// which of them are free together differs in every step, and a pool as tight as the
// load stitches all of its memory anew in each: on the recorded pipeline of Megatron
// 35,000 maps, two thirds of the step's time. Begun with two hundredths more memory it
// settles within a few steps, and then maps nothing. The same room given later is of
// little use: by then free memory is a patchwork of views.
//
// So a step that stitches more than half of what the pool holds raises the slack to
// Config.Economy, gives up sticky placement, and has the pool begin anew: what is free
// at its end goes back to the driver. That happens once. It never makes a request
// fail: when the device or Config.Limit gives no more handles, what is free is
// stitched, however large the slack.

// economize looks at the step that ends and reports whether the pool is to begin
// anew. A step that does not repeat the last is no measure: what is new is stitched
// once. Nor is one in which an arena was there, because what a lost plan leaves to the
// pool is stitched once as well.
func (e *Engine) economize() bool {
	heavy := e.hints.repeats() && 2*e.stitched > e.stats.Handles && !e.hasArena()
	e.stitched = 0
	if !heavy || e.cfg.Economy <= e.slack {
		return false
	}
	e.slack, e.hints.follow = e.cfg.Economy, followNone
	return true
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
