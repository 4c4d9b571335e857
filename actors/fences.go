package actors

import (
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// fences are the driver's fences that have not passed, by stream. The work of a
// stream passes its fences in order, so the driver is asked about the oldest of each:
// hundreds may be outstanding where a pipeline sends its activations.
//
// A stream that is being captured into a graph takes no fence, and other driver calls
// fail, too. What waits for such a fence is late: it stays taken until the driver accepts
// one, which is behind more work and so proves no less.
type fences struct {
	queues []fenceQueue // of the streams that have any
	next   int          // the queue to ask about
	n      int
	urgent int // of those, that memory waits for

	late    []waiting // not recorded
	failed  bool      // the driver has refused to record one or to tell about it
	passing int       // messages until the late ones are tried again
}

type fenceQueue struct {
	stream mem.StreamID
	waits  []waiting // the oldest first
}

// waiting is a fence of the engine and the driver's for it.
type waiting struct {
	stream mem.StreamID
	engine driver.Fence
	driver driver.Fence
	urgent bool // memory comes free with it
	synced bool // late: the stream has been waited for
}

// lateEvery is how many messages there are between two attempts to record what is late: each
// costs a driver call for a stream, and one that is gone takes no fence any more.
const lateEvery = 1 << 6

// add keeps a fence that was recorded on its stream.
func (f *fences) add(w waiting) {
	f.n++
	if w.urgent {
		f.urgent++
	}
	at := slices.IndexFunc(f.queues, func(q fenceQueue) bool { return q.stream == w.stream })
	if at < 0 {
		at = len(f.queues)
		f.queues = append(f.queues, fenceQueue{stream: w.stream})
	}
	f.queues[at].waits = append(f.queues[at].waits, w)
}

// put keeps one that is still to be recorded.
func (f *fences) put(w waiting) {
	if len(f.late) == 0 {
		f.passing = 1
	}
	w.driver = 0
	f.late = append(f.late, w)
	f.failed = true
}

// due counts a message and reports whether what is late is to be tried again.
func (f *fences) due() bool {
	if len(f.late) == 0 {
		return false
	}
	f.passing--
	return f.passing <= 0
}

// retry records what is late, as far as the driver lets it.
func (f *fences) retry(record func(mem.StreamID) (driver.Fence, error), pass func(waiting)) {
	late := f.late
	f.late = nil
	refused := map[mem.StreamID]bool{} // a stream that takes no fence takes no second one
	for _, w := range late {
		if w.synced {
			pass(w)
			continue
		}
		if !refused[w.stream] {
			var err error
			if w.driver, err = record(w.stream); err == nil {
				f.add(w)
				continue
			}
			refused[w.stream] = true
		}
		f.late = append(f.late, w)
	}
	f.passing = lateEvery
}

// synced notes that a stream has been waited for: what is late on it has passed. The
// others are found when the driver is asked about them.
func (f *fences) synced(id mem.StreamID) {
	for i := range f.late {
		if w := &f.late[i]; w.stream == id {
			w.synced, f.passing = true, 0
		}
	}
}

// streams returns those that something waits for.
func (f *fences) streams() (ids []mem.StreamID) {
	for _, q := range f.queues {
		ids = append(ids, q.stream)
	}
	for _, w := range f.late {
		if !slices.Contains(ids, w.stream) {
			ids = append(ids, w.stream)
		}
	}
	return ids
}

// poll asks about at most so many fences, stream after stream, until the oldest of none
// has passed. It calls pass for each that has; that may add others. One that the driver
// cannot tell about is late: nothing proves that its work is done.
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
		f.pop()
		if err != nil {
			f.put(w)
			continue
		}
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
