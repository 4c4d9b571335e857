package engine

// Economy of the driver's time. Where blocks of few sizes wait for other streams,
// which of them are free together differs in every step, and a pool as tight as the
// load stitches all of its memory anew in each: on the recorded pipeline of Megatron
// 35,000 maps, two thirds of the step's time. Begun with two hundredths more memory it
// settles within a few steps, and then maps some hundred pages a step. The same room given later is of
// little use: by then free memory is a patchwork of views.
//
// So a step that stitches more than half of what the pool holds raises the slack to
// the first of Config.Economy, gives up sticky placement, and has the pool begin anew:
// what is free at its end goes back to the driver. If the steps stitch more than one
// handle in 64 after that has settled, the same is done once more with the second.
// It never makes a request fail: when the device or Config.Limit gives no more handles,
// what is free is stitched, however large the slack.

// economy is what is known about that.
type economy struct {
	level    int // of Config.Economy that have been put to use
	stitched int // pages that blocks of this step took from free handles
	steps    int // since the pool began anew
	sum      int // of stitched in the last of them
}

const (
	settles     = 4  // steps until a pool that began anew is judged, and in which it is
	stitchedFew = 64 // one handle in so many
)

// economize looks at the step that ends and reports whether the pool is to begin
// anew. A step that does not repeat the last is no measure: what is new is stitched
// once. Nor is one in which an arena was there, because what a lost plan leaves to the
// pool is stitched once as well.
func (e *Engine) economize() bool {
	y := &e.economy
	pages := y.stitched
	y.stitched = 0
	if y.level == len(e.cfg.Economy) || !e.hints.repeats() || e.hasArena() {
		return false
	}
	if y.level == 0 {
		if 2*pages <= e.stats.Handles {
			return false
		}
	} else {
		if y.steps++; y.steps > settles {
			y.sum += pages
		}
		if y.steps < 2*settles {
			return false
		}
		few := stitchedFew*y.sum <= settles*e.stats.Handles
		y.steps, y.sum = settles, 0
		if few {
			return false
		}
	}
	e.slack = max(e.slack, e.cfg.Economy[y.level])
	e.hints.follow = followNone
	*y = economy{level: y.level + 1}
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
