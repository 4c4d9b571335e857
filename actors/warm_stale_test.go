package actors_test

import (
	"testing"

	"stalloc/internal/mem"
	"stalloc/tests/drift"
)

// TestAStalePlanCostsNoMemory: where a run leaves the plan it began with, or ends
// before it comes as far, it holds no more than without one, and as many steps are
// served as after any change.
func TestAStalePlanCostsNoMemory(t *testing.T) {
	model := drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
	frozen, deeper := model, model
	frozen.Frozen, deeper.Layers = 30, 60
	for name, c := range map[string]struct{ earlier, now func(p *drift.Program) }{
		"a smaller batch":         {changing(64, 64, 14), changing(40, 40, 14)},
		"a larger batch":          {changing(40, 40, 14), changing(64, 64, 14)},
		"fewer layers":            {everySixth(deeper), everySixth(model)},
		"more layers":             {everySixth(model), everySixth(deeper)},
		"frozen layers":           {everySixth(model), everySixth(frozen)},
		"unfrozen layers":         {everySixth(frozen), everySixth(model)},
		"not as far as before":    {changing(64, 96, 30), changing(64, 64, 14)},
		"two steps":               {changing(64, 96, 30), changing(64, 64, 2)},
		"recorded, not as far":    {recorded("llama_naive", 1.5, 20), recorded("llama_naive", 1, 9)},
		"recorded, smaller batch": {recorded("llama_naive", 1, 9), recorded("llama_naive", 0.7, 20)},
	} {
		bothWays(t, name, func(t *testing.T, beside bool) {
			cache := t.TempDir()
			begin(t, cache, beside, c.earlier)
			plain := begin(t, t.TempDir(), beside, c.now)
			stale := begin(t, cache, beside, c.now)
			t.Logf("%v reserved with a stale plan, %v without, the load's peak is %v; %d bad steps, without %d",
				stale.reserved, plain.reserved, plain.load, stale.bad(), plain.bad())
			if stale.reserved > plain.reserved+plain.reserved/100 {
				t.Errorf("%v reserved with a stale plan, %v without", stale.reserved, plain.reserved)
			}
			if stale.bad() > plain.bad()+1 {
				t.Errorf("%d bad steps, without a plan %d", stale.bad(), plain.bad())
			}
		})
	}
}
