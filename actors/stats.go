package actors

import (
	"fmt"
	"time"

	"stalloc/actors/pool"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/live/perfetto"
)

// Stats is the state of a device's allocator.
type Stats struct {
	pool.Stats
	// requests that were foreseen: served at their planned offsets, or elsewhere
	Hits, Misses      uint64
	Steps, Generation uint64 // boundaries; plans activated
	DroppedEvents     uint64 // of steps that ended faster than the planner could look at them
	// what PyTorch's allocator would have come to, if Options.Shadow is set
	Native Native
}

// Native is what PyTorch's own allocator, as it is by default, would have come to with the
// same requests, by simulation.
type Native struct {
	PeakReserved mem.Bytes // 0: it cannot be told
	Steps        uint64    // the first ones, which it is of
	OutOfMemory  bool      // after them its device would have been full
}

// Stats returns the current counts.
func (d *Device) Stats() Stats {
	s := Stats{Steps: d.counts.steps.Load(), Generation: d.counts.generation.Load(),
		DroppedEvents: d.counts.dropped.Load()}
	stats := func(p *pool.Pool) error { s.Stats = p.Stats(); return nil }
	_ = d.onPool(func(p *pool.Pool) error { p.Poll(); return stats(p) }, stats)
	s.Hits, s.Misses = d.Served()
	if d.shadow != nil {
		s.Native = d.shadow.Estimate(s.Engine.PeakLoad)
	}
	return s
}

// Retries is pool.Stats.Retries; it asks no actor either.
func (d *Device) Retries() uint64 { return d.counts.retries.Load() }

// Served is the part of Stats that asks no actor, so that it changes nothing: the pool polls its
// fences whenever it is asked.
func (d *Device) Served() (hits, misses uint64) { return d.streams.Served() }

// traced puts a step into the trace, if there is one: from the last boundary to this one,
// with what it asked for. The supervisor calls it at every boundary.
func (s *supervisor) traced() {
	t := s.d.opts.Trace
	if t == nil {
		return
	}
	now, stats, ordinal := time.Now(), s.d.Stats(), s.d.opts.Ordinal
	if last := s.traceLast; !last.at.IsZero() {
		t.Span(last.at, now, ordinal, fmt.Sprintf("step %d", stats.Steps-1), perfetto.Args{
			"requests": granted(stats.Engine) - granted(last.Engine),
			"stitched": stats.Engine.Stitches - last.Engine.Stitches,
			// so far: the curve is not told of every block
			"peak_allocated": int64(stats.Engine.PeakLoad),
			"hits":           stats.Hits - last.Hits, "misses": stats.Misses - last.Misses,
			"driver_calls": stats.DriverCalls - last.DriverCalls,
			"driver_ms":    float64((stats.DriverTime - last.DriverTime).Microseconds()) / 1e3,
		})
	}
	t.Memory(now, ordinal, stats.Load, stats.Reserved)
	if s.traceLast.Generation != stats.Generation {
		t.Mark(now, ordinal, fmt.Sprintf("plan %d serves", stats.Generation), nil)
	}
	s.traceLast.at, s.traceLast.Stats = now, stats
}

func granted(s engine.Stats) uint64 { return s.Hits + s.Fits + s.Stitches }
