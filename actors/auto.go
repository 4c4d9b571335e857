package actors

import (
	"sync"
	"sync/atomic"

	"stalloc/internal/mem"
	"stalloc/stream/period"
)

// Steps that nobody marks are found in the sequence of requests itself: before
// there is a plan by the period of the load (package period), under a plan by the
// end of its tape. The first step that is marked ends this for good: the program
// knows better.
type autoSteps struct {
	marked atomic.Bool // the program marks its steps

	mu       sync.Mutex
	main     Port // the stream that is watched: that of the first request
	detector period.Detector
	fed      bool // the detector has seen every event since its last boundary
}

// before takes a request that C's quick case did not serve, and reports whether a
// step ended before it.
func (a *autoSteps) before(port Port, l *lane, asked mem.Bytes) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.main == nil {
		a.main = port
	}
	if a.main.ID() != port.ID() {
		return false
	}
	if l.active.Load() {
		a.fed = false // hits pass unseen
		port.Lock()
		defer port.Unlock()
		return l.serving != nil && l.serving.tape.BeginsAnew(asked)
	}
	if !a.fed {
		a.detector, a.fed = period.Detector{}, true
	}
	return a.detector.Alloc(mem.Round(asked))
}

// freed takes a free of a block of the pool.
func (a *autoSteps) freed(f *Freed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fed && a.main != nil && a.main.ID() == f.Stream {
		a.detector.Free(f.Size)
	}
}
