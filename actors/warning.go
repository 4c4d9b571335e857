package actors

import (
	"fmt"

	"go.uber.org/zap"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/plan/descent"
	"stalloc/stream/schedule"
)

// warn says once that the coming step will not fit, if that is certain: the step that has ended
// came again, or contained steps of an earlier run.
func (p *planner) warn(m *stepEnded, again bool, earlier []plan.Step) {
	if p.warned {
		return
	}
	live := m.memory.Load - m.memory.Asleep // at least
	need := mem.Bytes(0)
	if again {
		need = live + m.peak()
	} else if len(earlier) > 0 {
		need = live + least(earlier)
	}
	if need <= m.memory.Reserved {
		return
	}
	free, _, err := p.d.dev.Memory()
	most := m.memory.Reserved + free
	if m.limit > 0 {
		most = min(most, m.limit)
	}
	if p.warned = err == nil && need > most; p.warned {
		note := fmt.Sprintf(" Said after step %d: the next one will not fit if it is like the one before. It needs at least %v, and there is %v.", p.d.steps.Load(), need, most)
		p.d.tooLarge.Store(&note)
		p.d.log.Warn("the coming step will not fit if it is like the one before: try a smaller batch "+
			"or sequence, activation checkpointing or offloading; stalloc.explain() says what is live",
			zap.Stringer("needs at least", need), zap.Stringer("there is",
				most), zap.Stringer("live now", live))
	}
}

// peak returns how much higher than at its begin the load of the step came.
func (m *stepEnded) peak() (most mem.Bytes) {
	load := mem.Bytes(0)
	var r schedule.Reader
	for _, l := range r.Read(m.events) {
		switch size := mem.Bytes(l.Event.Size()) * mem.Grain; l.What {
		case schedule.Requested:
			load += size
			most = max(most, load)
		case schedule.Freed, schedule.Released:
			load -= size
		}
	}
	return most
}

// least returns how much higher steps bring the load at least. What they leave is taken to replace
// what the step before left, such as gradients.
func least(steps []plan.Step) mem.Bytes {
	kept, peak := mem.Bytes(0), mem.Bytes(0)
	for _, s := range steps {
		var passing []descent.Buffer
		for _, r := range s.Requests {
			if r.Free == plan.Never {
				kept += r.Size
			} else {
				passing = append(passing, descent.Buffer{Lower: r.From, Upper: r.Free,
					Size: r.Size})
			}
		}
		peak = max(peak, descent.LowerBound(passing))
	}
	return peak - kept
}
