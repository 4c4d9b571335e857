package actors

import (
	"sync/atomic"

	"stalloc/internal/mem"
	"stalloc/stream/period"
	"stalloc/stream/wish"
)

// Steps that nobody marks are found in the sequence of requests itself: before
// there is a plan by the period of the load (package period), under a plan by the
// end of its tape. The first step that is marked ends this for good: the program
// knows better.
type autoSteps struct {
	marked atomic.Bool // the program marks its steps

	// Under the host's lock.
	main     *lane // the stream that is watched: that of the first request
	detector period.Detector
	fed      bool // the detector has seen every event since its last boundary
	seen     int  // events of the log that were read
}

// before takes a request that the host did not serve itself, and reports whether a
// step ended before it.
func (a *autoSteps) before(d *Device, l *lane, asked mem.Bytes) bool {
	d.host.Lock()
	defer d.host.Unlock()
	if a.main == nil {
		a.main = l
	}
	if a.main != l {
		return false
	}
	n := mem.Round(asked)
	freed := a.read(d.host.Events())
	t := &l.tapes[smallOf(n, d.small)]
	if len(t.Entries) > 0 && !t.Lost() { // hits pass unseen
		a.fed = false
		return t.BeginsAnew(uint64(n / mem.Grain))
	}
	if !a.fed {
		a.detector, a.fed = period.Detector{}, true
	}
	for _, size := range freed {
		a.detector.Free(size)
	}
	return a.detector.Alloc(n)
}

// read returns the sizes of the stream's blocks that were freed since the last time.
func (a *autoSteps) read(events []wish.Event) (freed []mem.Bytes) {
	for ; a.seen < len(events); a.seen++ {
		e := events[a.seen]
		if (e.Kind() == wish.EventFree || e.Kind() == wish.EventDone) && uint32(e.Stream()) == a.main.heap.Load() {
			freed = append(freed, mem.Bytes(e.Size())*mem.Grain)
		}
	}
	return freed
}
