package planner

import (
	"go.uber.org/zap"

	"stalloc/actors/step"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/plan/descent"
)

// warn says once that the coming step will not fit, if that is certain: the step that has ended
// came again, or contained steps of an earlier run. peak is how far the load rose in it.
func (p *Planner) warn(m *step.Observed, peak mem.Bytes, again bool, earlier []plan.Step) {
	if p.warned {
		return
	}
	live := m.Load - m.Asleep // at least
	need := mem.Bytes(0)
	if again {
		need = live + peak
	} else if len(earlier) > 0 {
		need = live + least(earlier)
	}
	if need <= m.Reserved {
		return
	}
	free, err := p.env.Free()
	most := m.Reserved + free
	if m.Limit > 0 {
		most = min(most, m.Limit)
	}
	if p.warned = err == nil && need > most; p.warned {
		p.env.Log.Warn("the coming step will not fit if it is like the one before: try a smaller "+
			"batch or sequence, activation checkpointing or offloading; stalloc.explain() says what "+
			"is live", zap.Stringer("needs at least", need), zap.Stringer("there is", most),
			zap.Stringer("live now", live))
		p.env.Warn(need, most)
	}
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
