package replay

import (
	"context"
	"fmt"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// Sizes are the two figures that say how much memory a run needs under an allocator.
type Sizes struct {
	// FitsIn is the memory of the smallest device on which the run comes to its end.
	FitsIn mem.Bytes
	// FullSpeedIn is that of the smallest on which it also runs at full speed, see
	// Result.AtFullSpeed; zero if it does so on none, or has no steady part to tell by.
	FullSpeedIn mem.Bytes
}

// endless is more memory than any recording can be in need of, in handles.
const endless = int64(1<<50) / int64(mem.HandleSize)

// ample is how many times the memory that a run fits in it may at least reserve where none
// is at full speed below.
const ample = 4

// Smallest returns the memory of the smallest device, in whole handles of mem.HandleSize,
// on which tr replays through a to its end, and that of the smallest on which it does so
// at full speed. Both are found by bisection between the peak load, below which none can
// be, and from, best the peak that a run with memory to spare has reserved; if that does
// not suffice, upwards from there. c.Capacity is not looked at.
//
// An allocator need not be monotonic: where its blocks lie can depend on how much memory
// there is, and a smaller device suffice by chance. What is returned suffices, and so does
// every larger device that was tried; one that is smaller by a thousandth of the load, at
// least by a handle, does not or is below the peak load. A warm run makes both of its
// starts on the same device.
//
// progress, unless it is nil, is asked for every replay's own, by the device's memory.
func (a Allocator) Smallest(ctx context.Context, tr *trace.Trace, c Config, from mem.Bytes,
	progress func(capacity mem.Bytes) func(done, total int)) (Sizes, error) {
	s := search{least: max(mem.Handles(tr.PeakLoad()), 1), tried: make(map[int64]outcome)}
	s.replay = func(handles int64) (Result, error) {
		c.Capacity = mem.Bytes(handles) * mem.HandleSize
		var each func(done, total int)
		if progress != nil {
			each = progress(c.Capacity)
		}
		return a.Replay(ctx, tr, c, each)
	}
	most := max(mem.Handles(from), s.least)
	for more := int64(1); ; more *= 2 {
		r, err := s.try(most)
		if err != nil {
			return Sizes{}, err
		}
		if r.fits {
			break
		}
		if most > endless {
			return Sizes{}, fmt.Errorf("out of memory on a device of %v too: no size suffices",
				c.Capacity)
		}
		most += more
	}
	var found Sizes
	var err error
	if s.steady && !s.tried[most].fast {
		// Memory to spare decides: is it ever at full speed?
		_, err = s.try(most * ample)
	}
	if err == nil {
		found.FullSpeedIn, err = s.smallest(func(o outcome) bool { return o.fast })
	}
	if err == nil {
		found.FitsIn, err = s.smallest(func(o outcome) bool { return o.fits })
	}
	return found, err
}

// search is what is known of devices so far.
type search struct {
	replay func(handles int64) (Result, error)
	least  int64 // handles of the load: no smaller device suffices
	tried  map[int64]outcome
	steady bool // the run has a steady part
}

// outcome is what came of a device.
type outcome struct{ fits, fast bool }

func (s *search) try(handles int64) (outcome, error) {
	if o, known := s.tried[handles]; known {
		return o, nil
	}
	r, err := s.replay(handles)
	if err != nil {
		return outcome{}, err
	}
	s.steady = s.steady || !r.OOM && r.SteadyTimeUS > 0
	o := outcome{fits: !r.OOM, fast: r.AtFullSpeed()}
	s.tried[handles] = o
	return o, nil
}

// smallest bisects between the largest device that is known not to suffice and the smallest
// above it that does; 0 if there is none.
func (s *search) smallest(suffices func(outcome) bool) (mem.Bytes, error) {
	for {
		low, high := s.least-1, int64(0)
		for handles, o := range s.tried {
			if !suffices(o) {
				low = max(low, handles)
			}
		}
		for handles, o := range s.tried {
			if handles > low && suffices(o) && (high == 0 || handles < high) {
				high = handles
			}
		}
		if high-low <= max(1, s.least/1000) {
			return mem.Bytes(high) * mem.HandleSize, nil
		}
		if _, err := s.try(low + (high-low)/2); err != nil {
			return 0, err
		}
	}
}
