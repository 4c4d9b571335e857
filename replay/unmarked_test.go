package replay

import (
	"context"
	"testing"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// unmarked is a target that hears of no step.
type unmarked struct{ *live }

func (unmarked) Step() Done { return Done{} }

// goOn lengthens a run by its last step, again and again.
func goOn(tr *trace.Trace, times int) {
	steps := tr.Steps()
	last := tr.Events[steps[len(steps)-1][0]-1 : steps[len(steps)-1][1]] // its mark included
	tr.Events = tr.Events[:steps[len(steps)-1][1]]                       // no end
	own := make(map[int64]bool)
	for i := range times {
		for _, e := range last {
			if e.Kind == trace.Alloc {
				own[e.ID] = true
			}
			switch {
			case e.Kind == trace.Mark:
				tr.Events = append(tr.Events, e)
			case own[e.ID]:
				e.ID += int64(i+1) << 40
				tr.Events = append(tr.Events, e)
			}
		}
	}
}

// TestWithoutMarks: a program that never says where a step ends is served by the range, and its
// memory is laid out as if there were steps: as tight as with marks, and nothing is planned.
func TestWithoutMarks(t *testing.T) {
	tr, err := trace.ReadFile("../tests/traces/llama_lora.csv.gz")
	if err != nil {
		t.Fatal(err)
	}
	goOn(tr, 20)
	target, err := newLive(sim.New(sim.Config{Capacity: 80 * mem.GiB, Manual: true}),
		actors.Options{Inline: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), tr, unmarked{target}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d hits of %d requests, fragmentation %.4f", r.Hits, r.Requests, r.Fragmentation)
	if r.Hits > 0 || r.Fragmentation > 0.02 || r.LostEvents > 0 {
		t.Errorf("without marks: %+v", r)
	}
}
