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
