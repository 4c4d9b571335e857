package mover

import "stalloc/internal/mem"

// run is what the program did while a region was closed. Between two looks the load counts as its
// peak.
type run struct {
	load []mem.Bytes
	done []uint64 // requests and frees until each of load
	end  uint64   // requests and frees until it was opened
	peak mem.Bytes
}

const looks = 4096 // kept of a run at most; then every two become one

// note records the load after so many requests and frees, and the most since it did so last.
func (r *region) note(load, high mem.Bytes, logged uint64) {
	x := &r.now
	x.peak = max(x.peak, high)
	last := len(x.load) - 1
	if last >= 0 {
		x.load[last] = max(x.load[last], high)
	}
	if last >= 0 && x.load[last] == load {
		return
	}
	if len(x.load) == looks {
		x.halve()
	}
	x.load = append(x.load, load)
	x.done = append(x.done, logged-r.start)
}

func (x *run) halve() {
	for i := range looks / 2 {
		x.load[i] = max(x.load[2*i], x.load[2*i+1])
		x.done[i] = x.done[2*i]
	}
	x.load, x.done = x.load[:looks/2], x.done[:looks/2]
}

// begin returns after how many requests and frees size bytes may begin to come back: the latest
// that any run allows, and a run's end if it never leaves room.
func begin(runs []run, limit, size mem.Bytes) (done uint64) {
	for _, x := range runs {
		at := len(x.load) // behind the last load that leaves no room
		for at > 0 && x.load[at-1]+size <= limit {
			at--
		}
		if at < len(x.load) {
			done = max(done, x.done[at])
		} else {
			done = max(done, x.end)
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
