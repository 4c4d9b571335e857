package engine

import "stalloc/internal/mem"

// The first step. While it goes on the load has yet to grow: the optimizer makes its
// state at the end, and in the second step that lies beside the activations. To stitch
// saves nothing then, since what it saves will be needed in any case. It costs its maps
// and leaves free memory a patchwork of views, in which the blocks that stay for good,
// the optimizer's state first of all, lie with gaps between them. So until the first
// step is over new handles are made within Config.First of the load, and while much of the
// device is left: libraries take memory of their own when they are used first.
//
// If the load does not grow, because the optimizer has no state, what is far too much
// goes back to the driver some steps later. Without stitching what is held is not due to this.

// first is how far the run is.
type first struct {
	steps int       // that have ended, up to firstJudged
	over  bool      // the first step has ended without a boundary
	began uint64    // the clock at the last boundary
	grew  uint64    // the clock when more memory was needed last
	peak  mem.Bytes // of the load then
}

const (
	// A first step that nobody ends is over when the load has not grown for firstOver
	// times the events that came before, and firstEvents. With recomputation the peak
	// of a step comes in its first quarter.
	firstOver   = 4
	firstEvents = 1 << 14
	// One part in firstLeaves of what may be held stays free.
	firstLeaves = 8
	// A boundary behind the set-up ends no step: nearly nothing was freed, neither
	// bytes nor blocks. Of a step's events hardly one in setupEvents leaves a block.
	setupEvents = 8
	setupLoad   = 0.9
	// Of the memory held after so many steps, what is more than this share beyond what
	// the load needed is too much.
	firstJudged = 8
	firstMuch   = 0.02
)

// isFirst reports whether the first step goes on.
func (e *Engine) isFirst() bool {
	f := &e.first
	if f.over || f.steps > 0 || e.hasArena() { // an earlier run's plan knows the load
		return false
	}
	f.over = e.clock-f.grew > firstOver*f.grew+firstEvents
	if e.stats.PeakHeld > f.peak {
		f.peak, f.grew = e.stats.PeakHeld, e.clock
	}
	return !f.over
}

// passFirst ends the step and reports whether there is far more memory than the load
// needed.
func (e *Engine) passFirst() bool {
	f, s := &e.first, &e.stats
	events := e.clock - f.began
	f.began = e.clock
	setup := setupEvents*uint64(s.Blocks) >= events && float64(s.Load) >= setupLoad*float64(s.PeakLoad)
	if f.steps == firstJudged || f.steps == 0 && setup {
		return false
	}
	f.steps++
	return f.steps == firstJudged && e.cfg.Stitch && !e.hasArena() && !within(s.Handles, max(e.slack, firstMuch), s.PeakHeld)
}
