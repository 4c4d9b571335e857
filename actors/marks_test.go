package actors_test

import (
	"testing"

	"stalloc/tests/drift"
)

// TestMarksOfTheOptimizerReserveNoMore: until the boundaries move behind the marks, every
// step ends with its gradients live, and a plan that is ready then must not begin beside
// them. Recorded steps, planned beside the program, with evaluations and without.
func TestMarksOfTheOptimizerReserveNoMore(t *testing.T) {
	for _, name := range []string{"llama_naive", "llama_recompute"} {
		for _, every := range []int{100, 5} {
			marked := func(p *drift.Program) {
				r := recording(p, name)
				if r == nil {
					return
				}
				for i := range 20 {
					r.TrainMarked(p)
					if i%every == every-1 {
						r.Evaluate(p)
					}
				}
			}
			cache := t.TempDir()
			for start := range 2 {
				o := begin(t, cache, true, marked)
				t.Logf("%s, evaluation every %d steps, start %d: %v reserved, the load's peak is %v", name, every, start+1, o.reserved, o.load)
				if o.reserved > o.load+o.load/100 {
					t.Errorf("%s, evaluation every %d steps, start %d: %v reserved, the load's peak is %v", name, every, start+1, o.reserved, o.load)
				}
				if last := o.steps[len(o.steps)-2]; last.Bad() {
					t.Errorf("%s, evaluation every %d steps, start %d: %d of %d requests were hits at the end", name, every, start+1, last.Hits, last.Requests)
				}
			}
		}
	}
}
