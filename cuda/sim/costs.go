package sim

import (
	"math"
	"time"

	"stalloc/internal/cost"
	"stalloc/internal/mem"
)

// Stats counts the calls a device has served, failed ones included, and the
// time a real device would have taken for them.
type Stats struct {
	Reserve, Unreserve, Create, Release, Map, Access, Unmap int64
	Record, Done, Sync, Memory                              int64
	Time                                                    time.Duration
}

// Calls is the number of all calls.
func (s Stats) Calls() int64 {
	return s.Reserve + s.Unreserve + s.Create + s.Release + s.Map + s.Access + s.Unmap +
		s.Record + s.Done + s.Sync + s.Memory
}

// Stats returns the counts so far.
func (d *Device) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

// Time returns the modelled time spent in driver calls so far.
func (d *Device) Time() time.Duration { return d.Stats().Time }

// What package cost leaves out, the calls that neither take memory nor give it back,
// measured on the same device.
const (
	costRecord = 280 * time.Nanosecond
	costDone   = 190 * time.Nanosecond
	costSync   = 500 * time.Nanosecond // an idle device
	costMemory = 4400 * time.Nanosecond
)

// costOf is the modelled time of one call over size bytes.
func costOf(k cost.Call, size mem.Bytes) time.Duration { return micros(cost.Micros(k, size)) }

func micros(us float64) time.Duration { return time.Duration(math.Round(us * 1000)) }

// rangeCost is the modelled time of a call over the mappings that begin in the pages
// [lo, hi) of a reservation, paid for each handle; what is not mapped counts as one of
// the least size. extra is added, in µs a handle, where there are several.
func (d *Device) rangeCost(k cost.Call, extra float64, r *reservation, lo, hi int) time.Duration {
	var sum float64
	n := 0
	for i := lo; i < hi; i++ {
		size := mem.HandleSize
		if i < len(r.pages) && r.pages[i].handle != 0 {
			if i > lo && r.pages[i].part > 0 {
				continue
			}
			size = d.handles.list[r.pages[i].handle-1].size
		}
		sum += cost.Micros(k, size)
		n++
	}
	switch n {
	case 0: // no range at all: the call has been made
		return costOf(k, mem.HandleSize)
	case 1:
		return micros(sum)
	}
	return micros(sum + extra*float64(n))
}

// begin counts a call and charges it; every exported call starts here. A call
// that is refused later has still been made.
func (d *Device) begin(counter *int64, call string, took time.Duration) error {
	if d.closed {
		return refuse(call, codeDeinitialized, "the device is closed")
	}
	*counter++
	d.stats.Time += took
	return nil
}
