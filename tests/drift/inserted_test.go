package drift

import (
	"testing"

	"stalloc/internal/mem"
)

// TestInserted has something inserted in a step now and then, at distances that tell nothing:
// before it, or between its passes. It costs the plan that step, and no memory: all other steps
// are served throughout.
func TestInserted(t *testing.T) {
	for name, insert := range map[string]func(p *Program, m *Model){
		"evaluation":             func(p *Program, m *Model) { m.Evaluate(p, 4) },
		"long evaluation":        func(p *Program, m *Model) { m.Evaluate(p, 20) },
		"batches as in training": func(p *Program, m *Model) { m.Validate(p, 4) },
		"checkpoint":             func(p *Program, m *Model) { m.Save(p) },
		"microbatch":             func(p *Program, m *Model) { m.Accumulate(p) },
	} {
		for where, between := range map[string]bool{"before": false, "between": true} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				inserted(t, between, insert)
			})
		}
	}
}

func inserted(t *testing.T, between bool, insert func(p *Program, m *Model)) {
	due := map[int]bool{10: true, 17: true, 21: true}
	steps := run(t, func(p *Program) {
		m := &Model{Layers: 60, Width: 96 * mem.MiB, Batch: 64}
		m.Setup(p)
		p.Step()
		for i := 1; i < 23; i++ {
			m.Between = nil
			if due[i] && between {
				m.Between = func() { insert(p, m) }
			} else if due[i] {
				insert(p, m)
			}
			m.Train(p)
			p.Step()
		}
		m.Unload(p)
	})
	recovers(t, steps, 1, 10)
	stays(t, steps, 4, end, 10, 17, 21)
}
