package drift

import (
	"path/filepath"
	"testing"
)

// TestRecordedRuns changes recorded steps: another batch size and back, an
// evaluation every few steps, an exception behind the forward pass.
func TestRecordedRuns(t *testing.T) {
	for _, name := range []string{"llama_naive", "llama_recompute"} {
		t.Run(name, func(t *testing.T) {
			all := run(t, func(p *Program) {
				r, err := ReadRecorded(filepath.Join("..", "traces", name+".csv.gz"))
				if err != nil {
					t.Fatal(err)
				}
				train := func() { r.Train(p); p.Step() }
				r.Start(p)
				p.Step()
				repeat(4, train) // steps 2 to 5
				r.Scale = 1.5
				repeat(5, train) // 6 to 10
				r.Scale = 0.6
				repeat(5, train) // 11 to 15
				r.Scale = 0
				for range 3 { // 16 to 24
					repeat(2, train)
					r.Evaluate(p)
					train()
				}
				r.Evaluate(p) // and no further: 25
				p.Step()
				repeat(5, train) // 26 to 30
				r.Unload(p)
			})
			recovers(t, all, 1, 6)
			recovers(t, all, 6, 11)
			recovers(t, all, 11, 16)
			recovers(t, all, 16, 26, 18, 21, 24) // these have an evaluation besides
			stays(t, all, 20, 26, 21, 24)
			recovers(t, all, 26, end)
		})
	}
}
