package order

import (
	"stalloc/engine"
)

// rule bounds how long a request waits for late frees of other streams before new memory is made
// (decision 27).
//
// The host queues work ahead of the device. While it is ahead, a wait costs nothing: the device
// goes on with what is queued. How far ahead the host is, is measured with marks: events recorded
// on the requesting stream that no block depends on.
//
//	host    ····m····m····m····m····m| waits      m: marks on the stream of the request
//	device            ^ here                      lag: how long a mark took to pass
//	                               ^ a wait ends here at the latest: a quarter of the lag is left
//
// The event may itself depend on this thread: a collective whose peer waits for our next launch.
// Then no mark passes. Three bounds: a wait ends when no mark has passed for the lag; all waits of
// a step take no longer than the step before; and once more was wasted, beyond a hundredth
// of the time, than a step takes, waits rest for ever more steps. A step without waits can cost
// memory for good, so a little waste is no reason.
type rule struct {
	// of the last mark that has passed, or of one that has not yet; 0: nothing is known
	lag           engine.Nanos
	marked        engine.Nanos // when the last mark was recorded
	began, took   engine.Nanos // the step, and the one before
	spent, wasted engine.Nanos // in this step: waiting, and of that while the device stood still
	borrowed      int          // in this step: streams that were asked to lend, and were at work
	debt          engine.Nanos // wasted so far, beyond a hundredth of the time
	failed        int          // rests in a row
	backoff       int          // steps until the next wait
	counts        Waits
}

// Waits counts waits for other streams that were to save memory.
type Waits struct {
	Waits  uint64
	Wasted uint64 // of them, in which the device came no further
	Time   engine.Nanos
}

const (
	microsecond engine.Nanos = 1e3
	millisecond engine.Nanos = 1e6

	// PollInterval is how long a thread sleeps before a request that waits comes again.
	PollInterval = 200 * microsecond
	// fewInterval is the time between two polls that no request asks for.
	fewInterval = 300 * microsecond
	// leastMark is the time between two marks, at least.
	leastMark = millisecond
	// idleDelay is how long a fence takes on a stream that has nothing to do.
	idleDelay = 10 * microsecond
	// lastWait bounds a wait while a wait for the device would have no end.
	lastWait = 10000 * millisecond

	wastedShare     = 100 // 1/100 of the time may be wasted
	reserveShare    = 4   // a wait leaves 1/4 of the lag
	maxBackoffShift = 9   // doublings of the steps that waits rest
)

// wait is how a request waits for memory that other streams are about to be done with.
type wait struct {
	waited      bool
	stalled     bool // the device came no further meanwhile
	from, until engine.Nanos
	// when the oldest event that had not passed at the last look was recorded
	oldest engine.Nanos
}

func (r *rule) marks(now engine.Nanos) bool {
	return now-r.marked >= max(leastMark, r.lag/(4*reserveShare))
}

// mayBorrow reports whether other streams may be asked to lend: what that costs is bounded, too.
func (r *rule) mayBorrow(now engine.Nanos) bool {
	return r.backoff == 0 && engine.Nanos(r.borrowed)*wastedShare*PollInterval <= r.length(now)
}

// mayWait reports whether a request may wait, or wait on, for a stream whose oldest event was
// recorded at a time: its own stream or, if others lend for it, one of those.
func (r *rule) mayWait(w *wait, now, oldest engine.Nanos, lent bool) bool {
	if r.backoff > 0 {
		return false
	}
	if !lent {
		r.lag = max(r.lag, now-oldest) // it has not passed yet
	}
	if !w.waited {
		w.from, w.stalled = now, true
	}
	if !w.waited || oldest > w.oldest {
		w.stalled = w.stalled && !w.waited
		w.oldest, w.until = oldest, now+r.lag
	}
	return (lent || now < w.until && oldest <= w.from-r.lag/reserveShare) &&
		r.spent+now-w.from < r.length(w.from)
}

// length returns how long a step takes: the last one, or this one so far.
func (r *rule) length(now engine.Nanos) engine.Nanos { return max(r.took, now-r.began-r.spent) }

// waited ends a wait: forced, had memory to be made all the same.
func (r *rule) waited(w *wait, now engine.Nanos, forced bool) {
	took := now - w.from
	r.spent += took
	r.counts.Time += took
	if r.counts.Waits++; forced && w.stalled {
		r.counts.Wasted++
		r.wasted += took
	}
}

func (r *rule) endStep(now engine.Nanos) {
	r.took, r.began = now-r.began, now
	over := r.wasted - r.took/wastedShare
	switch r.debt = max(r.debt+over, 0); {
	case r.backoff > 0:
		r.backoff--
	case over > 0 && r.debt > r.took:
		r.debt = r.took // the next such step is enough
		r.failed++
		r.backoff = 1 << min(2*r.failed, maxBackoffShift)
	case over <= 0 && r.spent > 0:
		r.failed = 0
	}
	r.spent, r.wasted, r.borrowed = 0, 0, 0
}
