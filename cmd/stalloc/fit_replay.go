package main

import (
	"errors"
	"fmt"
	"slices"

	"stalloc/internal/fit"
	"stalloc/internal/mem"
	"stalloc/replay"
	"stalloc/trace"
)

// madeUp replays runs of any size, which are made up from those that were recorded.
type madeUp struct {
	s      *session
	f      *fitFlags
	growth *trace.Growth
	load   fit.Line // of live tensors
	most   int64    // no larger size can fit
}

// topmost is how many of the largest sizes are tried one by one.
const topmost = 3

// tried is what came of a size on a device.
type tried struct{ fits, fast bool }

// results finds the two figures of an allocator: by bisection of the size on a device of the
// capacity, and on one that is smaller, and larger, by what live tensors may be off by.
func (m *madeUp) results(a replay.Allocator) (fits, speed fitResult, err error) {
	known, steady := make(map[[2]int64]tried), false
	try := func(size int64, capacity mem.Bytes) tried {
		key := [2]int64{size, int64(capacity)}
		if t, ok := known[key]; ok || err != nil {
			return t
		}
		tr := m.growth.At(float64(size))
		var r replay.Result
		r, err = a.Replay(m.s.ctx, tr, replay.Config{Capacity: capacity},
			m.s.progress.begin(fmt.Sprintf("size %d, %s", size, a.Name)))
		steady = steady || !r.OOM && r.SteadyTimeUS > 0
		known[key] = tried{fits: !r.OOM, fast: r.AtFullSpeed()}
		return known[key]
	}
	largest := func(capacity mem.Bytes, suffices func(tried) bool) int64 {
		low, high := int64(0), m.most/m.f.multiple
		// An allocator need not be monotonic: the largest sizes there can be are tried one by one.
		for range topmost {
			if high > 0 && suffices(try(high*m.f.multiple, capacity)) {
				return high * m.f.multiple
			}
			high = max(high-1, 0)
		}
		for low < high && err == nil {
			if middle := low + (high-low+1)/2; suffices(try(middle*m.f.multiple, capacity)) {
				low = middle
			} else {
				high = middle - 1
			}
		}
		return low * m.f.multiple
	}
	figure := func(name string, suffices func(tried) bool) fitResult {
		r := m.f.blank(a.Name, name)
		r.Method, r.Checked = methodReplay, m.load.Checked
		r.Largest = largest(r.Capacity, suffices)
		r.Low, r.High = r.Largest, r.Largest
		if r.Off = mem.Bytes(m.load.Error(float64(r.Largest))); r.Off >= mem.HandleSize &&
			r.Off < r.Capacity {
			r.Low = min(r.Low, largest(r.Capacity-r.Off, suffices))
			r.High = max(r.High, largest(r.Capacity+r.Off, suffices))
		}
		return r
	}
	fits = figure(figureFits, func(t tried) bool { return t.fits })
	speed = figure(figureSpeed, func(t tried) bool { return t.fast })
	if speed.Largest == 0 && fits.Largest > 0 {
		speed = m.f.blank(a.Name, figureSpeed)
		if speed.CannotTell = "of the sizes that were tried it is at full speed at none"; !steady {
			speed.CannotTell = errNotSteady.Error()
		}
	}
	return fits, speed, err
}

var errNotSteady = errors.New("the recordings have no steady part: record more steps")

// requestsSpread is by how much the requests of a step may differ otherwise: with routing, say.
const requestsSpread = 1.25

// oneProgram refuses recordings whose steps are too unlike for two sizes of one program: at most, a
// step asks once for each unit of its size, or, where the sizes are those of pieces, for each
// piece.
func oneProgram(a, b sized, small, large *trace.Trace) error {
	few, many := requestsAStep(small), requestsAStep(large)
	if few == 0 || many == 0 { // recordings without steps
		return nil
	}
	if float64(max(few, many)) <= requestsSpread*float64(b.size)/float64(a.size)*float64(min(few,
		many)) {
		return nil
	}
	return fmt.Errorf("%s makes %d requests a step and %s makes %d: these are no two sizes of one program; record one, with nothing changed but its size", a.path, few, b.path, many)
}

// requestsAStep is the median, 0 without steps.
func requestsAStep(tr *trace.Trace) int {
	counts := []int{}
	for _, s := range tr.Steps() {
		n := 0
		for _, e := range tr.Events[s[0]:s[1]] {
			if e.Kind == trace.Alloc {
				n++
			}
		}
		counts = append(counts, n)
	}
	if len(counts) == 0 {
		return 0
	}
	slices.Sort(counts)
	return counts[len(counts)/2]
}

// measureSize finds the two figures of a recording under an allocator.
func measureSize(s *session, a replay.Allocator, tr *trace.Trace, size int64, fits,
	speed *needed) error {
	load := tr.PeakLoad()
	c := replay.Config{Capacity: 4*load + mem.GiB}
	first, err := a.Replay(s.ctx, tr, c, s.progress.begin(tr.Name+", "+a.Name))
	if err != nil {
		return err
	}
	found, err := a.Smallest(s.ctx, tr, c, first.PeakReserved,
		func(capacity mem.Bytes) func(done, total int) {
			return s.progress.begin(fmt.Sprintf("%s, %s on %v", tr.Name, a.Name, capacity))
		})
	if err != nil {
		return err
	}
	tolerance := max(load/1000, mem.HandleSize)
	fits.add(size, found.FitsIn, tolerance)
	switch speed.add(size, found.FullSpeedIn, tolerance); {
	case found.FullSpeedIn > 0:
	case first.SteadyTimeUS == 0:
		speed.trouble = errNotSteady
	default:
		speed.trouble = fmt.Errorf("at size %d it is at full speed in no memory", size)
	}
	return nil
}
