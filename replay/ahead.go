package replay

import (
	"cmp"
	"slices"
	"time"

	"stalloc/internal/mem"
)

// ahead is the time of a replay: the host's, which is that of the recording and what it has waited
// since, and the device's, which is behind.
//
// How far behind tell the blocks that other streams used: from when their free was asked for until
// it completed. While the host is ahead a wait takes some of its lead and the device goes on; it
// has the lead again by the end of the step, where training programs look at what has come of it.
// If the wait is longer than the lead the device is idle for the rest, and all is later by that.
type ahead struct {
	now    time.Duration // recorded
	waited time.Duration // by the host in this step, and not by the device
	idle   time.Duration // of the device
	lag    time.Duration // of the device, as of the latest late free
	last   time.Duration // when the device will have done all that is queued
	queued []queued      // work on the streams of requests, in order
	due    []late        // frees that are to complete, in order
	all    time.Duration // waited in the whole run
}

// queued is work that the device will have done at a time.
type queued struct {
	at     time.Duration
	stream mem.StreamID
	to     mem.Tick
}

// late is a free that completes at a time, if the trace says when.
type late struct {
	at time.Duration
	id int64
}

// host is what a clock of the host shows.
func (a *ahead) host() time.Duration { return a.now + a.all }

// device is how far into the recording the device is.
func (a *ahead) device() time.Duration { return a.now + a.waited }

// wait lets time pass for the host.
func (a *ahead) wait(d time.Duration) {
	a.waited += d
	a.all += d
	if over := a.device() - a.last; over > 0 {
		a.waited -= min(over, d)
		a.idle += min(over, d)
	}
}

// leastWork is the time of the work that is queued together.
const leastWork = time.Millisecond / 2

// queue notes that work of now is queued on a stream.
func (a *ahead) queue(stream mem.StreamID, to mem.Tick) {
	a.last = max(a.last, a.now+a.lag)
	if n := len(a.queued); n > 0 && a.queued[n-1].stream == stream &&
		a.last-a.queued[n-1].at < leastWork {
		a.queued[n-1].to = to
		return
	}
	a.queued = append(a.queued, queued{a.last, stream, to})
}

// free notes a late free, and what it tells of how far the device is behind.
func (a *ahead) free(id int64, ends map[int64]time.Duration) {
	at, known := ends[id]
	if !known {
		return
	}
	a.lag = (a.lag + at - a.now) / 2
	i, _ := slices.BinarySearchFunc(a.due, at,
		func(l late, at time.Duration) int { return cmp.Compare(l.at, at+1) })
	a.due = slices.Insert(a.due, i, late{at, id})
}

// endStep gives the host its lead back.
func (a *ahead) endStep() { a.waited = 0 }
