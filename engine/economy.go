package engine

// Economy of the driver's time. Where blocks of few sizes wait for other streams,
// which are free together differs in every step, and a pool as tight as the load
// stitches all of its memory anew in each: on the recorded pipeline of Megatron
// 35,000 maps, two thirds of the step's time. With two hundredths more memory the
// views settle within a few steps, and then nothing is mapped.
//
// So a step that stitches more than half of what the pool holds raises the slack to
// Config.Economy and gives up sticky placement. It never makes a request fail: when the device or Config.Limit
// gives no more handles, what is free is stitched, however much the slack.

// economize looks at the step that ends. One that does not repeat the last is no
// measure: what is new is stitched once. Nor is one in which an arena was there,
// because what a lost plan leaves to the pool is stitched once as well.
func (e *Engine) economize() {
	heavy := e.hints.repeats() && 2*e.stitched > e.stats.Handles && !e.hasArena()
	e.stitched = 0
	if heavy && e.cfg.Economy > e.slack {
		e.slack, e.hints.follow = e.cfg.Economy, followNone
	}
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
