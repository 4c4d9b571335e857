package actors

import (
	"fmt"
	"time"

	"stalloc/engine"
	"stalloc/live/perfetto"
)

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
			"requests": granted(stats.Engine) - granted(last.Engine), "stitched": stats.Engine.Stitches - last.Engine.Stitches,
			// so far: the curve is not told of every block
			"peak_allocated": int64(stats.Engine.PeakLoad),
			"hits":           stats.Hits - last.Hits, "misses": stats.Misses - last.Misses,
			"driver_calls": stats.DriverCalls - last.DriverCalls, "driver_ms": float64((stats.DriverTime - last.DriverTime).Microseconds()) / 1e3,
		})
	}
	t.Memory(now, ordinal, stats.Load, stats.Reserved)
	if s.traceLast.Generation != stats.Generation {
		t.Mark(now, ordinal, fmt.Sprintf("plan %d serves", stats.Generation), nil)
	}
	s.traceLast.at, s.traceLast.Stats = now, stats
}

// granted counts the requests that were served.
func granted(s engine.Stats) uint64 { return s.Hits + s.Fits + s.Stitches }

// tracedCalls puts a stretch in the driver into the trace, what for, and what is held after
// it.
func (p *pool) tracedCalls(start time.Time, calls uint64) {
	now := time.Now()
	p.trace.Span(start, now, p.ordinal, purpose(p.ops), perfetto.Args{"calls": calls})
	p.trace.Memory(now, p.ordinal, p.eng.Stats().Load, p.eng.Reserved())
}

// purpose says what operations are for.
func purpose(ops []engine.Op) string {
	var has [engine.OpUnknown + 1]bool
	for _, op := range ops {
		has[op.Kind] = true
	}
	switch {
	case has[engine.OpCreate]:
		return "driver: take memory"
	case has[engine.OpRelease]:
		return "driver: give memory back"
	case has[engine.OpMap]:
		return "driver: stitch"
	case has[engine.OpUnmap]:
		return "driver: unmap"
	case has[engine.OpSync]:
		return "driver: wait for a stream"
	}
	return "driver: fence"
}
