// Package replay drives a recorded training run through an allocator and says
// how well it served the run.
//
// The idea: a trace fixes what the program asked for and when, so any number of
// allocators can be given exactly the same work and compared by what they hold
// and how often they go to the driver. Run walks the trace once and translates
// each line for a Target:
//
//	a  → Alloc            an error that matches driver.ErrOutOfMemory ends the run,
//	                      as it would end the training
//	s  → RecordStream
//	r  → FreeRequested    deferred if the block's end of life does not follow at
//	                      once: another stream still uses it
//	f  → FreeCompleted
//	e  → EmptyCache
//	# step k, # end → Step, before the step's first request
//
// and keeps the load, whose peak no allocator can go below. Targets are listed
// by name in Allocators; each count of a Result says in its comment where it
// begins.
package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// Modes of a run.
const (
	Cold = "cold" // nothing known at the start
	Warm = "warm" // the second start: with what an earlier run of the same trace has left
)

// Done is what an allocator's driver has done at a boundary.
type Done struct {
	Calls   int64
	TimeUS  float64 // modelled, in microseconds
	Retries int64
}

// Counts is what an allocator knows of its run.
type Counts struct {
	// Hits and Misses are requests the plan served and did not serve, from the
	// first step under a plan on. Both are zero where there never was one.
	Hits, Misses int64
	PeakReserved mem.Bytes
	DriverCalls  int64
	DriverTimeUS float64 // modelled, in microseconds
	Retries      int64   // see Result
	Waited, Idle int64   // see Result
	LostEvents   int64   // not observed for planning
}

// Target is an allocator under replay. Ids are the trace's; each names one
// block. Run calls a Target from one goroutine.
type Target interface {
	// Alloc serves a request. An error that matches driver.ErrOutOfMemory says
	// the device is full.
	Alloc(id int64, size mem.Bytes, stream mem.StreamID) error
	// RecordStream says that work queued on stream uses the block too.
	RecordStream(id int64, stream mem.StreamID)
	// FreeRequested is the program's free. If deferred, the block stays in use
	// on some other stream until FreeCompleted.
	FreeRequested(id int64, deferred bool)
	// FreeCompleted is the end of the block's life.
	FreeCompleted(id int64)
	// EmptyCache gives back what is reserved and not needed.
	EmptyCache()
	// Step is a step boundary: before each step's first request, and at the
	// end of the last. It returns what has been done by then, its own part
	// included.
	Step() Done
	// Finish ends the run and returns its counts. It is called once, last,
	// whether or not the run was cut short. An error says that the allocator
	// broke one of its own rules.
	Finish() (Counts, error)
}

// Timed is a Target that wants to know of each event, before anything else of it: its number, and
// when it was recorded, in microseconds.
type Timed interface{ At(event int, micros int64) }

// reportEvery is how many events pass between looks at the context and reports
// of progress.
const reportEvery = 1 << 12

// Run drives tr through target. It calls progress, unless that is nil, now and
// then with the number of events done and of all. A full device is a Result,
// not an error; the error is the context's, or the target's own.
func Run(ctx context.Context, tr *trace.Trace, target Target,
	progress func(done, total int)) (Result, error) {
	return drive(ctx, tr, target, progress, func(int) {})
}

// drive is Run that calls after with the number of each event that is done.
func drive(ctx context.Context, tr *trace.Trace, target Target, progress func(done, total int),
	after func(int)) (Result, error) {
	r := run{trace: tr, target: target, after: after, result: Result{Trace: tr.Name, Mode: Cold},
		live: make(map[int64]mem.Bytes)}
	err := r.events(ctx, progress)
	counts, finishErr := target.Finish()
	r.result.Hits, r.result.Misses = counts.Hits, counts.Misses
	r.result.PeakReserved, r.result.LostEvents = counts.PeakReserved, counts.LostEvents
	r.result.DriverCalls = counts.DriverCalls
	r.result.DriverTimeUS = nanoseconds(counts.DriverTimeUS)
	r.result.Retries = counts.Retries
	r.result.WaitedUS, r.result.IdleUS = counts.Waited, counts.Idle
	for _, s := range r.result.Steps[r.result.steadyFrom():] {
		r.result.SteadyDriverCalls += s.DriverCalls
		r.result.SteadyDriverTimeUS = nanoseconds(r.result.SteadyDriverTimeUS + s.DriverTimeUS)
		r.result.SteadyTimeUS += s.TimeUS
		r.result.SteadyRetries += s.Retries
	}
	if counts.PeakReserved > 0 {
		r.result.Fragmentation = 1 - float64(r.result.PeakLoad)/float64(counts.PeakReserved)
	}
	return r.result, errors.Join(err, finishErr)
}

// nanoseconds rounds: what lies below is the order of a sum, not the model.
func nanoseconds(micros float64) float64 { return math.Round(micros*1e3) / 1e3 }

type run struct {
	trace  *trace.Trace
	target Target
	after  func(event int)
	result Result
	load   mem.Bytes
	live   map[int64]mem.Bytes // rounded sizes
	now    int64               // recorded, in microseconds: of the latest event
	step   mem.Bytes           // the peak load of the step so far
	// The last boundary, and when it was; begun says that there was one.
	begun bool
	at    int64
	last  Done
}

// boundary ends a step, or the set-up.
func (r *run) boundary(done Done) {
	if r.begun {
		r.result.Steps = append(r.result.Steps, Step{
			TimeUS: r.now - r.at, PeakLoad: r.step,
			DriverCalls:  done.Calls - r.last.Calls,
			DriverTimeUS: nanoseconds(done.TimeUS - r.last.TimeUS),
			Retries:      done.Retries - r.last.Retries,
		})
	}
	r.begun, r.at, r.last, r.step = true, r.now, done, r.load
}

// events runs until the trace ends, the context does, or the device is full.
func (r *run) events(ctx context.Context, progress func(done, total int)) error {
	total := len(r.trace.Events)
	for i := range r.trace.Events {
		if i%reportEvery == 0 {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("replay of %s stopped after %d of %d events: %w", r.trace.Name, i,
					total, err)
			}
			if progress != nil {
				progress(i, total)
			}
		}
		err := r.event(i)
		if errors.Is(err, driver.ErrOutOfMemory) {
			r.result.OOM = true
			break
		}
		if err != nil {
			return fmt.Errorf("replay of %s, event %d: %w", r.trace.Name, i, err)
		}
		r.after(i)
	}
	if progress != nil {
		progress(total, total)
	}
	return nil
}

func (r *run) event(i int) error {
	e := &r.trace.Events[i]
	if e.Kind != trace.Mark {
		r.now = max(r.now, e.Micros)
	}
	if timed, ok := r.target.(Timed); ok {
		timed.At(i, r.now)
	}
	switch e.Kind {
	case trace.Alloc:
		r.result.Requests++
		if err := r.target.Alloc(e.ID, e.Size, e.Stream); err != nil {
			return err
		}
		size := mem.Round(e.Size)
		r.live[e.ID] = size
		r.load += size
		r.result.PeakLoad, r.step = max(r.result.PeakLoad, r.load), max(r.step, r.load)
	case trace.RecordStream:
		r.target.RecordStream(e.ID, e.Stream)
	case trace.FreeRequested:
		r.target.FreeRequested(e.ID, Deferred(r.trace.Events, i))
		r.load -= r.live[e.ID]
		delete(r.live, e.ID)
	case trace.FreeCompleted:
		r.target.FreeCompleted(e.ID)
	case trace.EmptyCache:
		r.target.EmptyCache()
	case trace.Mark:
		if Boundary(e.Mark) {
			r.boundary(r.target.Step())
		}
	}
	return nil
}

// Boundary reports whether a mark is a step boundary.
func Boundary(mark string) bool { return mark == "end" || strings.HasPrefix(mark, "step ") }

// Deferred reports whether the block whose free is requested at events[i]
// outlives that request: recordings put the two next to each other where no
// other stream was in the way.
func Deferred(events []trace.Event, i int) bool {
	for _, next := range events[i+1:] {
		if next.Kind != trace.Mark {
			return next.Kind != trace.FreeCompleted || next.ID != events[i].ID
		}
	}
	return true
}
