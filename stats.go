package stalloc

import (
	"fmt"
	"strings"
	"time"
)

// Stats are counts since Open. Amounts are in bytes; blocks count as their size
// rounded up to 512.
type Stats struct {
	Requests uint64 // calls of Malloc
	// Hits are requests that a plan served, Misses those that it did not while it
	// was being served. Both are zero before the first plan.
	Hits, Misses uint64
	Steps        uint64 // calls of Step
	Plans        uint64 // plans that became active
	// LostEvents are requests and frees that were not observed: more than 2^20 on a
	// stream within a step, or in steps that ended faster than they could be looked at.
	LostEvents uint64

	Allocated, PeakAllocated Bytes // in live blocks
	Active                   Bytes // in live blocks, and in freed ones that wait for other streams
	// Reserved is the physical memory taken from the driver.
	Reserved, PeakReserved Bytes
	// Asleep is what Pause has given back of it, and Backup what the host keeps of that, and for
	// the next Pause.
	Asleep, Backup Bytes

	// NativePeakReserved is what PyTorch's own allocator would have reserved at most for the
	// same requests in the first NativeSteps steps, by a simulation beside the program; zero
	// where that cannot be told, and without Options.Planning being PlanBeside. NativeFull:
	// the device would have been full behind them.
	NativePeakReserved Bytes
	NativeSteps        uint64
	NativeFull         bool

	DriverCalls uint64
	DriverTime  time.Duration // spent in them
	Retries     uint64        // requests served only after memory was given back
	Waits       uint64        // requests that waited for other streams rather than have memory made
	WaitTime    time.Duration // that they took
}

// Fragmentation is the part of the memory taken at the peak that was never needed
// at once: 1 − PeakAllocated/PeakReserved, between 0 and 1.
func (s Stats) Fragmentation() float64 {
	if s.PeakReserved == 0 {
		return 0
	}
	return max(0, 1-float64(s.PeakAllocated)/float64(s.PeakReserved))
}

// String names each count that is not zero.
func (s Stats) String() string {
	var text []string
	say := func(name string, value any, is bool) {
		if is {
			text = append(text, fmt.Sprintf("%s %v", name, value))
		}
	}
	say("requests", s.Requests, true)
	say("hits", s.Hits, s.Hits > 0)
	say("misses", s.Misses, s.Misses > 0)
	say("steps", s.Steps, true)
	say("plans", s.Plans, s.Plans > 0)
	say("events lost", s.LostEvents, s.LostEvents > 0)
	say("allocated", fmt.Sprintf("%v of at most %v", s.Allocated, s.PeakAllocated), true)
	say("reserved", fmt.Sprintf("%v of at most %v", s.Reserved, s.PeakReserved), true)
	say("asleep", s.Asleep, s.Asleep > 0)
	say("backup", s.Backup, s.Backup > 0)
	say("native would have reserved", s.NativePeakReserved, s.NativePeakReserved > 0)
	say("driver calls", fmt.Sprintf("%d in %v", s.DriverCalls, s.DriverTime), true)
	say("retries", s.Retries, s.Retries > 0)
	say("waits", fmt.Sprintf("%d in %v", s.Waits, s.WaitTime), s.Waits > 0)
	return strings.Join(text, ", ")
}

// Stats returns the current counts. Those of streams that are busy meanwhile are
// taken one after the other. After Close they are zero.
func (a *Allocator) Stats() Stats {
	if a.enter() != nil {
		return Stats{}
	}
	defer a.leave()
	s := a.local.Stats()
	now, peak := a.local.Load()
	return Stats{
		Requests: a.requests.Load(), Hits: s.Hits, Misses: s.Misses, Steps: s.Steps,
		Plans: s.Generation, LostEvents: a.local.LostEvents(),
		Allocated: now, PeakAllocated: peak, Active: now + s.Pending,
		Reserved: s.Reserved, PeakReserved: s.PeakReserved, Asleep: s.Asleep, Backup: s.Backup,
		NativePeakReserved: s.Native.PeakReserved, NativeSteps: s.Native.Steps,
		NativeFull:  s.Native.OutOfMemory,
		DriverCalls: s.DriverCalls, DriverTime: s.DriverTime, Retries: s.Retries,
		Waits: s.Waits.Waits, WaitTime: time.Duration(s.Waits.Time),
	}
}
