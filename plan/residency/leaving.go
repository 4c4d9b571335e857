package residency

import (
	"math"

	"stalloc/internal/mem"
)

// place is a stretch of time in which the load without returns does not change.
type place struct {
	at   Nanos
	load mem.Bytes
}

// absent marks a part that is not out.
const absent = Nanos(math.MinInt64)

// schedule is when each part of a choice leaves and comes back.
//
// Times are the program's time plus the waits for copies out ("at" of places); the waits for
// copies back come on top, by sum: copies out that begin behind such a wait begin later by it.
type schedule struct {
	*grid
	chosen []bool // by part

	at       []Nanos // by moment
	out      []Nanos // by part, when its copy out begins; absent: it stays
	gone     []int   // by part, the place at which its memory is free
	places   []place
	placeOf  []int // by moment
	returned []Nanos
	waits    []wait // for copies back
	late     Nanos  // the sum of waits
	loads    []mem.Bytes

	waiting []int32 // parts that leave, in order
	next    int     // of waiting
	free    Nanos   // the link's direction out
	here    mem.Bytes
}

// wait is what the program waits for copies back until a place, all waits before included.
type wait struct {
	place  int
	moment int32
	sum    Nanos
}

func newSchedule(g *grid) *schedule {
	return &schedule{grid: g, at: make([]Nanos, len(g.times)), out: make([]Nanos, len(g.parts)),
		gone: make([]int, len(g.parts)), placeOf: make([]int, len(g.times)),
		returned: make([]Nanos, len(g.parts))}
}

// run schedules a choice, and reports whether it keeps the limit.
func (s *schedule) run(chosen []bool) bool {
	s.chosen = chosen
	return s.goOut() && s.comeBack()
}

// goOut schedules the copies out: each as soon as it can, in order. Where memory is
// short, the program waits for those under way. False: that does not suffice.
func (s *schedule) goOut() bool {
	s.places, s.waiting, s.next, s.free, s.here = s.places[:0], s.waiting[:0], 0, -mostTime, 0
	for i := range s.out {
		s.out[i] = absent
	}
	s.waits, s.late = s.waits[:0], 0
	idle, need := s.leave, s.come
	for k := range s.times {
		now, before := s.times[k], mem.Bytes(0)
		if k > 0 {
			now = s.at[k-1] + s.times[k] - s.times[k-1]
			before = s.load[k-1]
		}
		for s.next < len(s.waiting) && s.until(s.waiting[s.next]) <= now {
			s.pop(before)
		}
		back, ended := mem.Bytes(0), mem.Bytes(0)
		n := 0
		for ; n < len(need) && s.parts[need[n]].until == int32(k); n++ {
			if i := need[n]; s.away(i) {
				back += s.parts[i].size
			} else {
				s.out[i], ended = absent, ended+s.parts[i].size
			}
		}
		need = need[n:]
		for before+s.here+back > s.limit {
			if !s.await(&now, before) {
				return false
			}
		}
		begun := mem.Bytes(0)
		n = 0
		for ; n < len(idle) && s.parts[idle[n]].from == int32(k); n++ {
			begun += s.parts[idle[n]].size
		}
		for s.load[k]+s.here-ended+begun > s.limit {
			if !s.await(&now, before) {
				return false
			}
		}
		s.here += begun - ended
		s.at[k], s.placeOf[k] = now, len(s.places)
		s.places = append(s.places, place{now, s.load[k] + s.here})
		s.queue(idle[:n], now)
		idle = idle[n:]
	}
	return true
}

// queue appends the chosen ones of parts that become idle.
func (s *schedule) queue(parts []int32, now Nanos) {
	for _, i := range parts {
		if s.chosen[i] {
			s.out[i], s.gone[i] = max(now, s.free), -1
			s.free = s.until(i)
			s.waiting = append(s.waiting, i)
		}
	}
}

// until is when a part's copy out ends.
func (s *schedule) until(i int32) Nanos { return s.out[i] + s.parts[i].out }

func (s *schedule) away(i int32) bool { return s.out[i] != absent && s.gone[i] >= 0 }

// pop ends the next copy out, while the load is as before. One that was too late is none.
func (s *schedule) pop(load mem.Bytes) {
	i := s.waiting[s.next]
	s.next++
	if s.out[i] == absent {
		return
	}
	s.here -= s.parts[i].size
	s.gone[i] = len(s.places)
	s.places = append(s.places, place{s.until(i), load + s.here})
}

// await lets the program wait for the next copy out. False: there is none.
func (s *schedule) await(now *Nanos, load mem.Bytes) bool {
	for s.next < len(s.waiting) && s.out[s.waiting[s.next]] == absent {
		s.next++
	}
	if s.next == len(s.waiting) {
		return false
	}
	*now = max(*now, s.until(s.waiting[s.next]))
	s.pop(load)
	return true
}
