package planner

import (
	"fmt"
	"testing"

	"go.uber.org/zap"

	"stalloc/actors/host"
	"stalloc/actors/step"
	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

// stepOf is what one stream did in a step: blocks that nest in groups.
func stepOf(requests int) *step.Observed {
	key := step.Arena{}
	m := &step.Observed{Order: []mem.StreamID{0}, Streams: map[uint16]mem.StreamID{1: 0},
		Gaps: map[step.Arena][]engine.Range{key: {{Addr: mem.Addr(mem.GiB), Size: mem.GiB}}}}
	for at := 0; at < requests; at += 10 {
		for _, kind := range []schedule.EventKind{schedule.EventHit, schedule.EventFree} {
			for i := range 10 {
				addr := uint64(mem.GiB) + uint64(at+i)*uint64(mem.MiB)
				m.Events = append(m.Events, schedule.EventOf(kind, addr, uint64(200+(at+i)%97*16),
					1))
			}
		}
	}
	m.Return = func([]schedule.Event) {}
	return m
}

// BenchmarkPlanner looks at steps that are served as they are planned: what the planner
// does beside a program most of the time.
func BenchmarkPlanner(b *testing.B) {
	for _, requests := range []int{50, 5000} {
		b.Run(fmt.Sprintf("events=%d", 2*requests), func(b *testing.B) {
			h := host.NewModel()
			w := New(Env{Log: zap.NewNop(), Small: mem.KiB, Plan: true, Build: h.Build,
				Send: func(*Ready) {}, Save: func(*plan.Plan) {},
				Free: func() (mem.Bytes, error) { return mem.GiB, nil }, Read: func(int64) {}})
			m := stepOf(requests)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m.Schedules = w.sent
				w.ended(m)
			}
			if w.sent > 1 {
				b.Errorf("%d plans were made", w.sent)
			}
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond*float64(2*requests), "events/s")
		})
	}
}
