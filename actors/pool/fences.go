package pool

import (
	"cmp"
	"slices"
	"time"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// fences are what freed memory waits for on streams that have used it.
//
// The driver must not be told of a stream that is gone: it may crash, or take the handle for
// that of a new stream at the same address. So a fence is put on a stream only when the program
// names it: when a block that it used is freed, until which it has to be there (as for PyTorch's
// own allocator), and with a request or another use. A free that is done later than the program
// asked for it names none. If the driver refuses, because the stream
// is being captured into a graph, or is gone all the same, what waits for it is late: it stays
// taken until the stream is named again, whose fence is behind more work and so proves no less, or
// until the device has been waited for.
//
// The work of a stream passes its fences in order, so the driver is asked about the oldest of
// each: hundreds may be outstanding where a pipeline sends its activations.
type fences struct {
	queues  []fenceQueue // of the streams that have any
	next    int          // the queue to ask about
	n       int          // waits behind a fence of the driver's
	urgent  int          // of those, that memory comes free with
	late    map[mem.StreamID][]waiter
	lateAll int           // waits that are late
	passed  []waiter      // waits that are over, and nobody was told
	mark    time.Duration // when the last mark that has passed was put
	failed  bool          // the driver has refused to record one or to tell about it
	looks   int           // messages since something became late
}

// fenceQueue are the fences on a stream.
type fenceQueue struct {
	stream mem.StreamID
	fences []fence // the oldest first
}

// fence is one of the driver's and what waits for it.
type fence struct {
	driver driver.Fence
	at     time.Duration // when it was put there
	waits  []waiter      // none: it is a mark
}

// waiter is a fence of the engine.
type waiter struct {
	engine driver.Fence
	urgent bool // memory comes free with it
}

// add has something wait for a stream: it is late.
func (f *fences) add(id mem.StreamID, w ...waiter) {
	f.late[id] = append(f.late[id], w...)
	f.lateAll += len(w)
	f.looks = 0
}

// record notes a fence that was put on a stream: what is late there waits for it.
func (f *fences) record(id mem.StreamID, x driver.Fence, now time.Duration) {
	at := slices.IndexFunc(f.queues, func(q fenceQueue) bool { return q.stream == id })
	if at < 0 {
		at = len(f.queues)
		f.queues = append(f.queues, fenceQueue{stream: id})
	}
	waits := f.late[id]
	delete(f.late, id)
	f.lateAll -= len(waits)
	f.count(waits, 1)
	q := &f.queues[at]
	q.fences = append(q.fences, fence{x, now, waits})
}

func (f *fences) count(waits []waiter, by int) {
	f.n += by * len(waits)
	for _, w := range waits {
		if w.urgent {
			f.urgent += by
		}
	}
}

// missing returns how many fences memory waits for that are not on their streams.
func (f *fences) missing() (n int) {
	for _, waits := range f.late {
		for _, w := range waits {
			if w.urgent {
				n++
			}
		}
	}
	return n
}

// waited notes that the device has been waited for: what is late has passed. The others are
// found when the driver is asked about them.
func (f *fences) waited() {
	for _, waits := range f.late {
		f.passed = append(f.passed, waits...)
	}
	slices.SortFunc(f.passed, func(a, b waiter) int { return cmp.Compare(a.engine, b.engine) })
	clear(f.late)
	f.lateAll = 0
}

// oldest returns when the first fence on some streams that has not passed was put there, if there
// is one.
func (f *fences) oldest(ids ...mem.StreamID) (at time.Duration, any bool) {
	for _, q := range f.queues {
		if x := q.fences[0].at; slices.Contains(ids, q.stream) && (!any || x < at) {
			at, any = x, true
		}
	}
	return at, any
}

// poll asks about at most so many fences, stream after stream, until the oldest of none
// has passed. It calls pass for what waits for each that has; that may add others. What waits
// for one that the driver cannot tell about is late: nothing proves that its work is done.
func (f *fences) poll(most int, done func(driver.Fence) (bool, error), pass func(waiter)) {
	over := f.passed
	f.passed = nil
	for _, w := range over {
		pass(w)
	}
	for held := 0; most > 0 && held < len(f.queues); most-- {
		if f.next >= len(f.queues) {
			f.next = 0
		}
		q := &f.queues[f.next]
		passed, err := done(q.fences[0].driver)
		if err == nil && !passed {
			f.next++
			held++
			continue
		}
		id, waits := q.stream, q.fences[0].waits
		f.count(waits, -1)
		if len(waits) == 0 {
			f.mark = q.fences[0].at
		}
		if q.fences = slices.Delete(q.fences, 0, 1); len(q.fences) == 0 {
			f.queues = slices.Delete(f.queues, f.next, f.next+1)
		}
		if err != nil {
			f.add(id, waits...)
			continue
		}
		for _, w := range waits {
			pass(w)
		}
	}
}
