package drift

import (
	"testing"

	"stalloc/actors"
	"stalloc/internal/mem"
)

// TestInserted has something inserted in a step now and then, at distances that tell nothing:
// before it, or between its passes. From the second time on it is foreseen, as far as its
// requests are large, and all other steps are served throughout.
func TestInserted(t *testing.T) {
	for _, c := range []struct {
		name   string
		least  float64
		insert func(p *Program, m *Model)
	}{
		{"evaluation", 0.9, func(p *Program, m *Model) { m.Evaluate(p, 4) }},
		{"long evaluation", 0.95, func(p *Program, m *Model) { m.Evaluate(p, 20) }},
		{"batches as in training", 0.6, func(p *Program, m *Model) { m.Validate(p, 4) }},
		{"checkpoint", 0.8, func(p *Program, m *Model) { m.Save(p) }},
		{"microbatch", 0.35, func(p *Program, m *Model) { m.Accumulate(p) }},
	} {
		for where, between := range map[string]bool{"before": false, "between": true} {
			t.Run(c.name+" "+where, func(t *testing.T) {
				t.Parallel()
				inserted(t, between, c.least, c.insert)
			})
		}
	}
}

func inserted(t *testing.T, between bool, least float64, insert func(p *Program, m *Model)) {
	due := map[int]bool{10: true, 17: true, 21: true}
	steps, _ := drive(t, func(p *Program) {
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
	}, actors.Options{Inline: true}, 400*mem.GiB)
	for i, s := range steps {
		want := 0.95
		switch {
		case i < 4 || i == 10: // nothing is known
			continue
		case due[i]:
			want = least
		}
		if share := float64(s.Hits) / float64(s.Requests); share < want {
			t.Errorf("step %d: %.3f of the requests were served as wished, want %.2f", i, share, want)
		}
	}
}
