package order

import (
	"cmp"
	"slices"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// fences are the driver's events that late frees wait for, in the order of their streams' work.
type fences struct {
	queues []queue // of the streams that have any
	next   int     // the queue to ask about
	n      int     // waiters behind an event
	urgent int     // of those, that memory comes free with
	late   map[mem.StreamID][]waiter
	lateN  int          // waiters that are late
	passed []waiter     // waiters that are over, and the policy was not told
	mark   engine.Nanos // when the last mark that has passed was recorded; 0: none has
	last   driver.Fence // number of an event
	looks  int          // events of the runner since something became late
}

// queue are the events on a stream.
type queue struct {
	stream mem.StreamID
	events []event // the oldest first
}

// event is one of the driver's and what waits for it.
type event struct {
	number  driver.Fence
	at      engine.Nanos // when it was recorded
	waiters []waiter     // none: it is a mark
}

// waiter is a fence of the policy.
type waiter struct {
	fence  driver.Fence
	urgent bool         // memory comes free with it
	freed  engine.Block // that it is a late free of, if it is of one
}

// add makes something wait for a stream: it is late.
func (f *fences) add(id mem.StreamID, w ...waiter) {
	f.late[id] = append(f.late[id], w...)
	f.lateN += len(w)
	f.looks = 0
}

// record notes an event that is recorded on a stream: what is late there waits for it.
func (f *fences) record(id mem.StreamID, now engine.Nanos) driver.Fence {
	at := slices.IndexFunc(f.queues, func(q queue) bool { return q.stream == id })
	if at < 0 {
		at = len(f.queues)
		f.queues = append(f.queues, queue{stream: id})
	}
	waiters := f.late[id]
	delete(f.late, id)
	f.lateN -= len(waiters)
	f.count(waiters, 1)
	f.last++
	q := &f.queues[at]
	q.events = append(q.events, event{f.last, now, waiters})
	return f.last
}

// unrecord takes back the event that the driver has refused: what waits for it is late again.
func (f *fences) unrecord(number driver.Fence) {
	for i := range f.queues {
		q := &f.queues[i]
		k := slices.IndexFunc(q.events, func(x event) bool { return x.number == number })
		if k < 0 {
			continue
		}
		id, waiters := q.stream, q.events[k].waiters
		f.count(waiters, -1)
		f.drop(i, k)
		if len(waiters) > 0 {
			looks := f.looks
			f.add(id, waiters...)
			f.looks = looks
		}
		return
	}
}

func (f *fences) drop(i, k int) {
	q := &f.queues[i]
	if q.events = slices.Delete(q.events, k, k+1); len(q.events) == 0 {
		f.queues = slices.Delete(f.queues, i, i+1)
	}
}

func (f *fences) count(waiters []waiter, by int) {
	f.n += by * len(waiters)
	for _, w := range waiters {
		if w.urgent {
			f.urgent += by
		}
	}
}

// synced notes that the device was waited for: what is late has passed. The others are found when
// the driver is asked about them.
func (f *fences) synced() {
	for _, waiters := range f.late {
		f.passed = append(f.passed, waiters...)
	}
	slices.SortFunc(f.passed, func(a, b waiter) int { return cmp.Compare(a.fence, b.fence) })
	clear(f.late)
	f.lateN = 0
}

// oldest returns when the first event on some streams that has not passed was recorded, if there
// is one.
func (f *fences) oldest(ids ...mem.StreamID) (at engine.Nanos, any bool) {
	for _, q := range f.queues {
		if x := q.events[0].at; slices.Contains(ids, q.stream) && (!any || x < at) {
			at, any = x, true
		}
	}
	return at, any
}

// atWork reports whether an event has not passed on one of some streams, or is not there yet.
func (f *fences) atWork(ids []mem.StreamID) bool {
	_, behind := f.oldest(ids...)
	late := func(id mem.StreamID) bool { return len(f.late[id]) > 0 }
	return behind || slices.ContainsFunc(ids, late)
}

// ask returns the event that the driver is asked about next: the oldest of the next queue.
func (f *fences) ask() driver.Fence {
	if f.next >= len(f.queues) {
		f.next = 0
	}
	return f.queues[f.next].events[0].number
}

// answer takes what the driver says of the event that ask has returned. It reports whether the
// event is gone from its queue, and returns what has passed. What waits for an event that the
// driver cannot tell about is late: nothing proves that its work is done. An event that was refused
// in the batch of the question is gone already.
func (f *fences) answer(number driver.Fence, passed, failed bool) (gone bool, over []waiter) {
	if f.next >= len(f.queues) || f.queues[f.next].events[0].number != number {
		return true, nil
	}
	if !passed && !failed {
		f.next++
		return false, nil
	}
	q := &f.queues[f.next]
	id, x := q.stream, q.events[0]
	f.count(x.waiters, -1)
	if len(x.waiters) == 0 {
		f.mark = x.at
	}
	f.drop(f.next, 0)
	if failed {
		f.add(id, x.waiters...)
		return true, nil
	}
	return true, x.waiters
}

// missing returns how many fences memory waits for that no event is recorded for.
func (f *fences) missing() (n int) {
	for _, waiters := range f.late {
		for _, w := range waiters {
			if w.urgent {
				n++
			}
		}
	}
	return n
}
