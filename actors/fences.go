package actors

import (
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// fences are the driver's fences that have not passed, by stream. The work of a
// stream passes its fences in order, so the driver is asked about the oldest of each:
// hundreds may be outstanding where a pipeline sends its activations.
type fences struct {
	queues []fenceQueue // of the streams that have any
	next   int          // the queue to ask about
	n      int
	urgent int // of those, that memory waits for
}

type fenceQueue struct {
	stream mem.StreamID
	waits  []waiting // the oldest first
}

// waiting is a fence of the engine and the driver's for it.
type waiting struct {
	engine driver.Fence // 0: it belongs to slot
	driver driver.Fence
	slot   *slotWait
	urgent bool // memory comes free with it
}

// slotWait is a pinned slot of a tape that waits for fences.
type slotWait struct {
	arena   *arena
	addr    mem.Addr
	rounded mem.Bytes
	left    int
}

// add keeps a fence that was recorded on a stream.
func (f *fences) add(id mem.StreamID, w waiting) {
	f.n++
	if w.urgent {
		f.urgent++
	}
	at := slices.IndexFunc(f.queues, func(q fenceQueue) bool { return q.stream == id })
	if at < 0 {
		at = len(f.queues)
		f.queues = append(f.queues, fenceQueue{stream: id})
	}
	f.queues[at].waits = append(f.queues[at].waits, w)
}

// poll asks about at most so many fences, stream after stream, until the oldest of none
// has passed. It calls pass for each that has; that may add others.
func (f *fences) poll(most int, done func(driver.Fence) (bool, error), pass func(waiting)) {
	for held := 0; most > 0 && held < len(f.queues); most-- {
		if f.next >= len(f.queues) {
			f.next = 0
		}
		w := f.queues[f.next].waits[0]
		passed, err := done(w.driver)
		if err == nil && !passed {
			f.next++
			held++
			continue
		}
		// A fence that cannot be asked about is waited for no longer than the
		// whole device would be: its stream is gone, and its work with it.
		f.pop()
		pass(w)
	}
}

// pop takes the oldest fence off the next queue.
func (f *fences) pop() {
	q := &f.queues[f.next]
	f.n--
	if q.waits[0].urgent {
		f.urgent--
	}
	if q.waits = slices.Delete(q.waits, 0, 1); len(q.waits) == 0 {
		f.queues = slices.Delete(f.queues, f.next, f.next+1)
	}
}
