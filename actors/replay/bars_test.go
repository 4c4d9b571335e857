package replay

import (
	"context"
	"testing"

	"stalloc/internal/mem"
	"stalloc/trace"
)

// TestDenseBars holds the live allocator to what the README promises on recorded
// runs whose steps repeat exactly: cold, no worse than the best of the allocators
// it is compared with and served from a plan by the third step; warm, at most 0.5 %
// fragmentation; no driver call in the steady state.
func TestDenseBars(t *testing.T) {
	for _, name := range []string{"gpt2_naive", "llama_naive", "llama_recompute", "llama_vpp", "llama_lora"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr, err := trace.ReadFile("../../tests/traces/" + name + ".csv.gz")
			if err != nil {
				t.Fatal(err)
			}
			replay := func(allocator string, c Config) Result {
				c.Capacity = 80 * mem.GiB
				a, err := Lookup(allocator)
				if err != nil {
					t.Fatal(err)
				}
				r, err := a.Replay(context.Background(), tr, c, nil)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			best := 1.0
			for _, peer := range []string{"native", "expandable", "gmlake"} {
				best = min(best, replay(peer, Config{FragLimit: DefaultFragLimit}).Fragmentation)
			}
			best = min(best, replay("gmlake", Config{FragLimit: 64 * mem.MiB}).Fragmentation)
			cold, warm := replay("stalloc", Config{}), replay("stalloc", Config{Warm: true})
			t.Logf("fragmentation: cold %.4f, warm %.4f, best peer %.4f", cold.Fragmentation, warm.Fragmentation, best)
			if cold.Fragmentation > best || cold.Hits == 0 || cold.Misses*100 > cold.Hits {
				t.Errorf("cold: %+v; the best peer has %.4f", cold, best)
			}
			planned := int64(0)
			for _, step := range tr.Steps()[2:] {
				for _, e := range tr.Events[step[0]:step[1]] {
					if e.Kind == trace.Alloc {
						planned++
					}
				}
			}
			if cold.Hits+cold.Misses < planned {
				t.Errorf("cold: %d requests were served under a plan, from the third step on there are %d", cold.Hits+cold.Misses, planned)
			}
			if warm.Fragmentation > 0.005 || warm.Misses*100 > warm.Hits || warm.SteadyDriverCalls != 0 {
				t.Errorf("warm: %+v", warm)
			}
		})
	}
}
