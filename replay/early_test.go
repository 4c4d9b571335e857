package replay

import (
	"strings"
	"testing"

	"stalloc/trace"
)

// early moves every mark of a step to before the frees that lie directly in front of
// it: the gradients, which the recorded programs clear at the end of an iteration, are
// then live where the step is marked, as in a program that clears them first.
func early(tr *trace.Trace) {
	for i := range tr.Events {
		if e := tr.Events[i]; e.Kind == trace.Mark && strings.HasPrefix(e.Mark, "step ") {
			for ; i > 0 && (tr.Events[i-1].Kind == trace.FreeRequested ||
				tr.Events[i-1].Kind == trace.FreeCompleted); i-- {
				tr.Events[i] = tr.Events[i-1]
			}
			tr.Events[i] = e
		}
	}
}

// TestMarksWhileGradientsLive: what the gradients have is no plan's at the mark. The steps are
// served all the same, in as little memory and without the driver, on the first start and the
// second.
func TestMarksWhileGradientsLive(t *testing.T) {
	for _, name := range []string{"llama_naive", "llama_recompute"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, err := trace.ReadFile("../tests/traces/" + name + ".csv.gz")
			if err != nil {
				t.Fatal(err)
			}
			goOn(tr, 10)
			early(tr)
			peer := fragmentation(t, tr, "expandable", Config{Capacity: device})
			for _, warm := range []bool{false, true} {
				r := replayed(t, tr, "stalloc", Config{Capacity: device, Warm: warm})
				t.Logf("%s: fragmentation %.4f (expandable segments %.4f), %d hits, %d misses of %d requests", r.Mode, r.Fragmentation, peer, r.Hits, r.Misses, r.Requests)
				if r.Fragmentation > peer {
					t.Errorf("%s: fragmentation %.4f, expandable segments have %.4f", r.Mode,
						r.Fragmentation, peer)
				}
				for i, s := range r.Steps[len(r.Steps)-5:] {
					if s.DriverTimeUS > 100 { // a fence costs some
						t.Errorf("%s: the driver takes %.0f us of the %d. of the last five steps, which repeat", r.Mode, s.DriverTimeUS, i+1)
					}
				}
			}
		})
	}
}
