package pool

import (
	"time"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/live/perfetto"
)

// tracedCalls puts a stretch in the driver into the trace, what for, and what is held after
// it.
func (p *Pool) tracedCalls(start time.Time, calls uint64) {
	now := time.Now()
	p.Trace.Span(start, now, p.Ordinal, purpose(p.ops), perfetto.Args{"calls": calls})
	p.Trace.Memory(now, p.Ordinal, p.policy.Stats().Load, p.reserved())
}

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
		return "driver: wait for the device"
	}
	return "driver: fence"
}

// spanned puts what has happened to regions since a moment into the trace: so many bytes left, came
// back, or were waited for.
func (p *Pool) spanned(start time.Time, name string, n mem.Bytes) {
	if p.Trace == nil {
		return
	}
	now := time.Now()
	p.Trace.Span(start, now, p.Ordinal, name, perfetto.Args{"bytes": int64(n)})
	p.Trace.Memory(now, p.Ordinal, p.policy.Stats().Load, p.reserved())
}
