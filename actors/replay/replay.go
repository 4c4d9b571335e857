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
	"slices"
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

// Result is what one run of a trace through one allocator came to. Sizes are
// in bytes.
type Result struct {
	Trace     string `json:"trace"`
	Allocator string `json:"allocator"`
	Mode      string `json:"mode"`
	// Noise and Seed say how the trace was disturbed, see trace.Trace.Disturb. They
	// are the caller's to set.
	Noise float64 `json:"noise,omitempty"`
	Seed  uint64  `json:"seed,omitempty"`
	// Requests counts all of the trace, up to the one that failed if one did.
	Requests     int64     `json:"requests"`
	Hits         int64     `json:"hits"`
	Misses       int64     `json:"misses"`
	PeakLoad     mem.Bytes `json:"peak_load_bytes"`
	PeakReserved mem.Bytes `json:"peak_reserved_bytes"`
	// Fragmentation is 1 − PeakLoad / PeakReserved, between 0 and 1.
	Fragmentation float64 `json:"fragmentation"`
	DriverCalls   int64   `json:"driver_calls"`
	DriverTimeUS  float64 `json:"driver_time_us"`
	// SteadyDriverCalls and SteadyDriverTimeUS are the part of DriverCalls and
	// DriverTimeUS in the steady part of the run, and SteadyTimeUS is how long that
	// took when it was recorded. All are zero if there is no such part; steadyFrom
	// says where it begins.
	SteadyDriverCalls  int64   `json:"steady_driver_calls"`
	SteadyDriverTimeUS float64 `json:"steady_driver_time_us"`
	SteadyTimeUS       int64   `json:"steady_time_us"`
	// Steps are the steps of the run, the set-up left out.
	Steps []Step `json:"steps,omitempty"`
	// LostEvents are requests and frees that were not observed for planning.
	LostEvents int64 `json:"lost_events,omitempty"`
	// OOM says that the device was full and the run ended there; the other
	// figures cover what came before.
	OOM bool `json:"oom"`
	// Smallest is what Allocator.Smallest has found, zero if nobody asked. It is the
	// caller's to set.
	Smallest mem.Bytes `json:"smallest_bytes,omitempty"`
}

// Step is what one step of a run came to.
type Step struct {
	TimeUS       int64     `json:"time_us"` // when it was recorded
	DriverCalls  int64     `json:"driver_calls"`
	DriverTimeUS float64   `json:"driver_time_us"` // modelled
	PeakLoad     mem.Bytes `json:"peak_load_bytes"`
	// Planned says that the step began under a plan.
	Planned bool `json:"planned"`
}

// Done is what an allocator's driver has done at a boundary.
type Done struct {
	Calls  int64
	TimeUS float64 // modelled, in microseconds
	// Planned says that the step that now begins is served under a plan.
	Planned bool
}

// Counts is what an allocator knows of its run.
type Counts struct {
	// Hits and Misses are requests the plan served and did not serve, from the
	// first step under a plan on. Both are zero where there never was one.
	Hits, Misses int64
	PeakReserved mem.Bytes
	DriverCalls  int64
	DriverTimeUS float64 // modelled, in microseconds
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

// timed is a Target that wants to know when a boundary was recorded, in microseconds.
type timed interface{ at(micros int64) }

// reportEvery is how many events pass between looks at the context and reports
// of progress.
const reportEvery = 1 << 12

// Run drives tr through target. It calls progress, unless that is nil, now and
// then with the number of events done and of all. A full device is a Result,
// not an error; the error is the context's, or the target's own.
func Run(ctx context.Context, tr *trace.Trace, target Target, progress func(done, total int)) (Result, error) {
	return drive(ctx, tr, target, progress, func(int) {})
}

// drive is Run that calls behind with the number of each event that is done.
func drive(ctx context.Context, tr *trace.Trace, target Target, progress func(done, total int), behind func(int)) (Result, error) {
	r := run{trace: tr, target: target, behind: behind, result: Result{Trace: tr.Name, Mode: Cold}, live: make(map[int64]mem.Bytes)}
	err := r.events(ctx, progress)
	counts, finishErr := target.Finish()
	r.result.Hits, r.result.Misses = counts.Hits, counts.Misses
	r.result.PeakReserved, r.result.LostEvents = counts.PeakReserved, counts.LostEvents
	r.result.DriverCalls, r.result.DriverTimeUS = counts.DriverCalls, nanoseconds(counts.DriverTimeUS)
	for _, s := range r.result.Steps[r.result.steadyFrom():] {
		r.result.SteadyDriverCalls += s.DriverCalls
		r.result.SteadyDriverTimeUS = nanoseconds(r.result.SteadyDriverTimeUS + s.DriverTimeUS)
		r.result.SteadyTimeUS += s.TimeUS
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
	behind func(event int)
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

// steadyFrom returns the number of the first step of the steady part, len(r.Steps) if
// there is none. Until the load has come within steadyLoad of its peak memory must be
// made, by whatever allocator, and until a plan is served it must be learned: so the
// steady part begins behind the step of the peak and behind the second step, or where a
// plan comes to be served, with the first step under it, but for the very first step of
// the run.
func (r *Result) steadyFrom() int {
	from := steadyAfter
	for i, s := range r.Steps {
		if s.Planned {
			from = max(i, 1)
			break
		}
	}
	var peak mem.Bytes
	for _, s := range r.Steps {
		peak = max(peak, s.PeakLoad)
	}
	near := slices.IndexFunc(r.Steps, func(s Step) bool { return float64(s.PeakLoad) >= steadyLoad*float64(peak) })
	return min(max(from, near+1), len(r.Steps))
}

const (
	steadyAfter = 2 // steps
	steadyLoad  = 0.99
)

// boundary ends a step, or the set-up.
func (r *run) boundary(done Done) {
	if r.begun {
		r.result.Steps = append(r.result.Steps, Step{
			TimeUS: r.now - r.at, PeakLoad: r.step, Planned: r.last.Planned,
			DriverCalls: done.Calls - r.last.Calls, DriverTimeUS: nanoseconds(done.TimeUS - r.last.TimeUS),
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
				return fmt.Errorf("replay of %s stopped after %d of %d events: %w", r.trace.Name, i, total, err)
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
		r.behind(i)
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
	case trace.FreeCompleted:
		r.target.FreeCompleted(e.ID)
		r.load -= r.live[e.ID]
		delete(r.live, e.ID)
	case trace.EmptyCache:
		r.target.EmptyCache()
	case trace.Mark:
		if Boundary(e.Mark) {
			if timed, ok := r.target.(timed); ok {
				timed.at(r.now)
			}
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
