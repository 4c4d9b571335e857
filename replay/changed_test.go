package replay

import (
	"context"
	"testing"

	"stalloc/actors"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// TestSecondStartOfAnotherProgram starts every recording with the plan of the run before
// and then does not do what that did: now and then, in each hundredth request, or in each
// tenth. Where the plan is left, live blocks pass from its arena to the pool. The replay
// looks at the memory behind all of them.
func TestSecondStartOfAnotherProgram(t *testing.T) {
	const fewEvents = 100_000 // the long ones would take minutes and add nothing to these
	for _, tr := range recordings(t) {
		if len(tr.Events) > fewEvents {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) {
			t.Parallel()
			for i, r := range startChanged(t, tr, Config{Capacity: device}) {
				if limit := mem.Bytes(float64(r.PeakLoad) * 1.05); r.PeakReserved > limit {
					t.Errorf("run %d: %v reserved for a load of %v", i, r.PeakReserved, r.PeakLoad)
				}
			}
		})
	}
}

// startChanged runs a recording and then, with the plan of that run, three that differ.
func startChanged(t *testing.T, tr *trace.Trace, c Config) (results []Result) {
	t.Helper()
	first, err := start(tr, c, actors.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), tr, first, nil); err != nil {
		t.Fatal(err)
	}
	for seed, rate := range []float64{0.0005, 0.01, 0.1} {
		second, err := start(tr, c, actors.Options{Plan: first.plan})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), tr.Disturb(uint64(seed+1), rate), second, nil)
		t.Logf("noise %v: fragmentation %.4f, %d hits, %d misses", rate, r.Fragmentation, r.Hits,
			r.Misses)
		if err != nil || r.OOM {
			t.Errorf("noise %v: out of memory %v, %v", rate, r.OOM, err)
		}
		results = append(results, r)
	}
	return results
}
