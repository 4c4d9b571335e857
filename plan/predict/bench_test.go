package predict

import (
	"testing"

	"stalloc/trace"
)

// midway replays a recording until the step's forecast was just made, and returns what it was
// planned with.
func midway(b *testing.B, name string, step string) *replayer {
	b.Helper()
	tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
	if err != nil {
		b.Fatal(err)
	}
	for i, e := range tr.Events {
		if e.Kind == trace.Mark && e.Mark == step {
			tr.Events = tr.Events[:i+1]
			break
		}
	}
	return replayed(b, tr, run{})
}

var benched = []struct{ name, step string }{{"hf_trainer", "step 9"}, {"pyg_gat", "step 30"}, {"megatron_dense.r0", "step 6"}}

// BenchmarkDerive is what the fourth request of a step costs beside a usual one.
func BenchmarkDerive(b *testing.B) {
	for _, c := range benched {
		b.Run(c.name, func(b *testing.B) {
			l := midway(b, c.name, c.step).l
			l.run.seen.features = l.kinds[l.last].latest(0).features
			l.run.seen.features[0]-- // seen never
			for range l.kinds[l.last].tokens[:8] {
				l.token(request)
			}
			l.run.seen.sizes = append(l.run.seen.sizes, l.kinds[l.last].latest(0).sizes[:8]...)
			b.ReportAllocs()
			for b.Loop() {
				l.derive(&l.kinds[l.last])
			}
			b.ReportMetric(float64(len(l.positions)), "positions")
		})
	}
}

// BenchmarkPlan solves the last plan of a recording again.
func BenchmarkPlan(b *testing.B) {
	for _, c := range benched {
		b.Run(c.name, func(b *testing.B) {
			again := midway(b, c.name, c.step).again
			var positions int
			for b.Loop() {
				positions, _ = again()
			}
			b.ReportMetric(float64(positions), "positions")
		})
	}
}

// BenchmarkPair is a large request and its free in the steady state.
func BenchmarkPair(b *testing.B) {
	l := midway(b, "hf_trainer", "step 9").l
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		r, _ := l.Alloc(8 << 20)
		l.Done(r)
		if n++; n%2000 == 0 {
			l.Boundary()
		}
	}
}
