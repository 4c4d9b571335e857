package replay

import (
	"context"
	"sync"
	"weak"

	"stalloc/baseline"
	"stalloc/baseline/paper"
	"stalloc/internal/mem"
	"stalloc/internal/without"
	"stalloc/trace"
)

// published makes the list entry of the STAlloc paper's allocator. A cold run is two starts: the
// first, of three steps under the caching allocator, is profiled; the second has the plan. A warm
// run is the second alone. If there is no plan, as for a recording of two steps, native serves
// both.
func published() Allocator {
	return Allocator{Name: "paper", Plans: true,
		New: func(_ context.Context, tr *trace.Trace, c Config) (Target, error) {
			var plan *paper.Plan
			if !c.Without.Has(without.Plans) {
				plan = paperPlan(tr, c.IgnoreStreams)
			}
			planned, err := paper.New(options(c), plan)
			if err != nil {
				return nil, err
			}
			s := &twoStarts{tr: tr, simulation: newSimulation(planned), paper: planned}
			if !c.Warm && plan != nil {
				s.first = newSimulation(baseline.NewNative(baseline.Options{Capacity: c.Capacity}))
			}
			return s, nil
		}}
}

// twoStarts replays the first start, until it ends, and the second, which makes the same requests.
// Figures are the second's, but reserved memory is the larger of both.
type twoStarts struct {
	*simulation
	tr         *trace.Trace
	event      int // that is being replayed
	paper      *paper.Allocator
	first      *simulation // nil once it has ended, or if there was none
	boundaries int
	ended      Counts // of the first start
}

func (s *twoStarts) Alloc(id int64, size mem.Bytes, stream mem.StreamID) error {
	if s.first != nil {
		if err := s.first.Alloc(id, size, stream); err != nil {
			return err
		}
	}
	return s.simulation.Alloc(id, size, stream)
}

func (s *twoStarts) RecordStream(id int64, stream mem.StreamID) {
	if s.first != nil {
		s.first.RecordStream(id, stream)
	}
	s.simulation.RecordStream(id, stream)
}

func (s *twoStarts) FreeRequested(id int64, deferred bool) {
	if s.first != nil {
		s.first.FreeRequested(id, deferred)
	}
	s.simulation.FreeRequested(id, deferred)
}

func (s *twoStarts) FreeCompleted(id int64) {
	if s.first != nil {
		s.first.FreeCompleted(id)
	}
	s.simulation.FreeCompleted(id)
}

func (s *twoStarts) EmptyCache() {
	if s.first != nil {
		s.first.EmptyCache()
	}
	s.simulation.EmptyCache()
}

// At notes the number of an event.
func (s *twoStarts) At(event int, _ int64) { s.event = event }

// Step ends a step, unless it begins the first one.
func (s *twoStarts) Step() Done {
	if s.boundaries > 0 {
		s.paper.Step()
	}
	if s.tr.Events[s.event].Mark == "end" {
		s.paper.Leave()
	}
	if s.boundaries++; s.boundaries > paper.Steps {
		s.endFirst()
	}
	return s.simulation.Step()
}

func (s *twoStarts) endFirst() {
	if s.first == nil {
		return
	}
	var err error
	if s.ended, err = s.first.Finish(); s.fault == nil {
		s.fault = err
	}
	s.first = nil
}

func (s *twoStarts) Finish() (Counts, error) {
	s.endFirst()
	c, err := s.simulation.Finish()
	c.Hits, c.Misses = s.paper.Served()
	c.PeakReserved = max(c.PeakReserved, s.ended.PeakReserved)
	c.DriverCalls += s.ended.DriverCalls
	c.DriverTimeUS += s.ended.DriverTimeUS
	c.Retries += s.ended.Retries
	return c, err
}

func (s *twoStarts) served() (hits, misses int64) { return s.paper.Served() }

func (s *twoStarts) peak() mem.Bytes {
	most := max(s.simulation.peak(), s.ended.PeakReserved)
	if s.first != nil {
		most = max(most, s.first.peak())
	}
	return most
}

func (s *twoStarts) reserved() mem.Bytes {
	now := s.simulation.reserved()
	if s.first != nil {
		now = max(now, s.first.reserved())
	}
	return now
}

// latest is the plan that was made last: one recording is replayed on devices of many sizes, and
// its plan does not depend on them.
var latest struct {
	sync.Mutex
	of            weak.Pointer[trace.Trace]
	ignoreStreams bool
	plan          *paper.Plan
}

func paperPlan(tr *trace.Trace, ignoreStreams bool) *paper.Plan {
	latest.Lock()
	defer latest.Unlock()
	if latest.of.Value() != tr || latest.ignoreStreams != ignoreStreams {
		latest.of, latest.ignoreStreams, latest.plan = weak.Make(tr), ignoreStreams, nil
		if profile, err := paper.Read(tr, ignoreStreams); err == nil {
			latest.plan = profile.Plan()
		}
	}
	return latest.plan
}
