package onerange

// mostGaps is how many gaps a request or the end of a step walks at a time, a dozen times at most.
// Recordings have 700; a walk of so many takes a tenth of a millisecond, under the lock.
const mostGaps = 1 << 12

// mostLooked is how many handles under idle views are looked at for one that serves: a recorded
// pipeline of 55 GiB needs more than half as many.
const mostLooked = 1 << 16

// tooFragmented reports whether an arena has more gaps than that. Nothing is stitched or planned in
// it while the device has memory: it grows.
func (e *Engine) tooFragmented(s uint32) bool {
	n := 0
	for range e.idx.Gaps(s) {
		if n++; n > mostGaps {
			return true
		}
	}
	return false
}

// roomy reports whether as much can be made as the request needs.
func (e *Engine) roomy() bool { return !e.act.createFailed && e.held+pagesOf(e.act.n) <= e.limit }
