package replay

import (
	"slices"

	"stalloc/internal/mem"
)

// Result is what one run of a trace through one allocator came to. Sizes are
// in bytes.
type Result struct {
	Trace     string `json:"trace"`
	Allocator string `json:"allocator"`
	Mode      string `json:"mode"`
	// These say how the trace was disturbed (trace.Trace.Disturb and Late). The caller sets them.
	Noise float64 `json:"noise,omitempty"`
	Late  float64 `json:"late,omitempty"`
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
	// Retries are requests that were served only after memory was given back, or streams
	// were waited for, as PyTorch's num_alloc_retries counts them; SteadyRetries those of
	// the steady part.
	Retries       int64 `json:"retries"`
	SteadyRetries int64 `json:"steady_retries"`
	// WaitedUS is how long requests waited for blocks that other streams still used, rather than
	// have memory made, while the host was ahead of the device, and IdleUS by how much it was not:
	// all after it is later by that.
	WaitedUS int64 `json:"waited_us,omitempty"`
	IdleUS   int64 `json:"idle_us,omitempty"`
	// Steps are the steps of the run, the set-up left out.
	Steps []Step `json:"steps,omitempty"`
	// LostEvents are requests and frees that were not observed for planning.
	LostEvents int64 `json:"lost_events,omitempty"`
	// OOM says that the device was full and the run ended there; the other
	// figures cover what came before.
	OOM bool `json:"oom"`
	// FitsIn and FullSpeedIn are what Allocator.Smallest has found, see Sizes; zero if
	// nobody asked. They are the caller's to set.
	FitsIn      mem.Bytes `json:"fits_in_bytes,omitempty"`
	FullSpeedIn mem.Bytes `json:"full_speed_in_bytes,omitempty"`
}

// AtFullSpeed reports whether allocating took next to no time once the run was under way:
// at most fullSpeed of the steady part in the driver, and no request that had to be tried
// again. A run without a steady part cannot tell.
func (r *Result) AtFullSpeed() bool {
	return !r.OOM && r.SteadyTimeUS > 0 && r.SteadyRetries == 0 &&
		r.SteadyDriverTimeUS <= fullSpeed*float64(r.SteadyTimeUS)
}

// fullSpeed is the share of the steady part that the driver may take. No step is measured
// more exactly: two runs under one allocator differ by more.
const fullSpeed = 0.01

// Step is what one step of a run came to.
type Step struct {
	TimeUS       int64     `json:"time_us"` // when it was recorded
	DriverCalls  int64     `json:"driver_calls"`
	DriverTimeUS float64   `json:"driver_time_us"` // modelled
	Retries      int64     `json:"retries"`
	PeakLoad     mem.Bytes `json:"peak_load_bytes"`
}

// steadyFrom returns the number of the first step of the steady part, len(r.Steps) if
// there is none: the same for every allocator and every setting. Until the load has come
// within steadyLoad of its peak memory must be made, by whatever allocator, and whoever
// learns is given two steps for it.
func (r *Result) steadyFrom() int {
	var peak mem.Bytes
	for _, s := range r.Steps {
		peak = max(peak, s.PeakLoad)
	}
	near := slices.IndexFunc(r.Steps,
		func(s Step) bool { return float64(s.PeakLoad) >= steadyLoad*float64(peak) })
	return min(max(steadyAfter, near+1), len(r.Steps))
}

const (
	steadyAfter = 2 // steps
	steadyLoad  = 0.99
)
