package mover

import (
	"slices"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan/residency"
)

// run is what the program did while a region was closed. Between two looks at the load it counts as
// the most that it was.
type run struct {
	load []residency.Load
	done []uint64 // requests and frees until each of load
	end  uint64   // requests and frees until it was opened
	peak mem.Bytes
}

const (
	looks = 4096 // at most of a run; then each two become one
	// linkRate is that of fourth-generation PCIe, in bytes a second. On a faster link the memory is
	// taken earlier than needed.
	linkRate = 20e9
)

// note records the load after so many requests and frees, and the most since it did so last.
func (r *region) note(now time.Duration, load, high mem.Bytes, logged uint64) {
	x := &r.now
	x.peak = max(x.peak, high)
	last := len(x.load) - 1
	if last >= 0 {
		x.load[last].Bytes = max(x.load[last].Bytes, high)
	}
	if last >= 0 && x.load[last].Bytes == load {
		return
	}
	if len(x.load) == looks {
		x.halve()
	}
	at := residency.Nanos(now - r.since)
	x.load = append(x.load, residency.Load{From: at, Bytes: load})
	x.done = append(x.done, logged-r.start)
}

func (x *run) halve() {
	for i := range looks / 2 {
		a, b := x.load[2*i], x.load[2*i+1]
		x.load[i] = residency.Load{From: a.From, Bytes: max(a.Bytes, b.Bytes)}
		x.done[i] = x.done[2*i]
	}
	x.load, x.done = x.load[:looks/2], x.done[:looks/2]
}

// begin returns after how many requests and frees size bytes may begin to come back: the latest
// that any run allows, and a run's end if it never leaves room.
func begin(runs []run, limit, size mem.Bytes) (done uint64) {
	for _, x := range runs {
		at, ok := residency.SafeStart(x.load, 0, limit, size, linkRate)
		i := slices.IndexFunc(x.load, func(l residency.Load) bool { return ok && l.From >= at })
		if i < 0 {
			done = max(done, x.end)
		} else {
			done = max(done, x.done[i])
		}
	}
	return done
}

func peak(runs []run) (most mem.Bytes) {
	for _, x := range runs {
		most = max(most, x.peak)
	}
	return most
}
