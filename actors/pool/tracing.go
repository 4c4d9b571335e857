package pool

import (
	"time"

	"stalloc/engine"
	"stalloc/live/perfetto"
)

// tracedCalls puts a stretch in the driver into the trace, what for, and what is held after
// it.
func (p *Pool) tracedCalls(start time.Time, calls uint64) {
	now := time.Now()
	p.Trace.Span(start, now, p.Ordinal, purpose(p.ops), perfetto.Args{"calls": calls})
	p.Trace.Memory(now, p.Ordinal, p.policy.Stats().Load, p.policy.Reserved())
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
