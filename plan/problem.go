package plan

import (
	"sort"

	"stalloc/internal/mem"
)

// Buffer is one block of a planning problem: Size bytes that must stay at one
// offset during [Lower, Upper). A buffer with an empty life or no size takes
// no memory and may lie anywhere.
type Buffer struct {
	Lower, Upper mem.Tick
	Size         mem.Bytes
}

func (b Buffer) empty() bool { return b.Lower >= b.Upper || b.Size <= 0 }

// Weights are a priority by which buffers are placed: the sum of each weight times
// its feature, features scaled to [0, 1] within the problem, larger placed
// first. The best weights of one problem are usually good for the next one
// like it, so they are kept with the plan and tried first when planning again.
type Weights struct {
	Size     float64 // logarithm of the buffer's size
	Duration float64 // logarithm of the length of its life
	Load     float64 // largest load met during its life
	Lower    float64 // start of its life
	Upper    float64 // end of its life
	Mirror   bool    // with time reversed: ties go to the later end, not the earlier start
	Fit      bool    // place by first fit instead of by descent
}

// Options bound the work of Solve. The zero value is a good choice for
// planning beside a training run. Budgets count work, never wall time, so that
// the same problem always gets the same plan.
type Options struct {
	// Descents is how many placements of the whole problem may be tried; zero
	// chooses a number that keeps planning 10,000 buffers under about a second.
	Descents int
	// Seed starts the random search.
	Seed uint64
	// Warm is the priority to try first, if any: that of the last plan.
	Warm *Weights
	// Last is the plan being replaced, if any: Make and MakeRun warm-start
	// every stream from the priority that served the same stream there.
	Last *Plan
}

// Solution is a placement of every buffer of a problem.
type Solution struct {
	Offsets    []mem.Offset // by buffer
	Makespan   mem.Bytes    // end of the highest buffer
	LowerBound mem.Bytes    // peak load: no placement ends lower
	Order      string       // name of the method that found it
	Weights    Weights      // its priority, where the method has one
	Descents   int          // placements tried
}

// Gap returns how far the makespan lies above the lower bound: 0.01 is one
// percent.
func (s Solution) Gap() float64 {
	if s.LowerBound <= 0 {
		return 0
	}
	return float64(s.Makespan)/float64(s.LowerBound) - 1
}

// LowerBound returns the peak load of b: the largest sum of sizes live at one
// tick.
func LowerBound(b []Buffer) mem.Bytes {
	type change struct {
		at    mem.Tick
		delta mem.Bytes
	}
	changes := make([]change, 0, 2*len(b))
	for _, x := range b {
		if !x.empty() {
			changes = append(changes, change{x.Lower, x.Size}, change{x.Upper, -x.Size})
		}
	}
	sort.Slice(changes, func(i, j int) bool {
		if changes[i].at != changes[j].at {
			return changes[i].at < changes[j].at
		}
		return changes[i].delta < changes[j].delta // lives are half open: ends come first
	})
	var load, peak mem.Bytes
	for _, c := range changes {
		load += c.delta
		peak = max(peak, load)
	}
	return peak
}
