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

func (unmarked) Step() {}

// TestStepsAreFoundWithoutMarks replays a recorded run and never says where a step
// ends: plans must be made and served all the same.
func TestStepsAreFoundWithoutMarks(t *testing.T) {
	for _, name := range []string{"llama_lora"} {
		tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
		if err != nil {
			t.Fatal(err)
		}
		target, err := newLive(sim.New(sim.Config{Capacity: 80 * mem.GiB, Manual: true}), actors.Options{Inline: true})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(context.Background(), tr, unmarked{target}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d hits, %d misses of %d requests, fragmentation %.4f", name, r.Hits, r.Misses, r.Requests, r.Fragmentation)
		if r.Hits == 0 || r.Misses*50 > r.Hits {
			t.Errorf("%s: %d hits and %d misses without marks", name, r.Hits, r.Misses)
		}
	}
}
