package actors_test

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/tests/drift"
)

func training(batch, steps int) func(p *drift.Program) {
	return func(p *drift.Program) {
		m := &drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: batch}
		m.Setup(p)
		p.Step()
		for range steps {
			m.Train(p)
			p.Step()
		}
	}
}

func TestTheNextRunStartsWithThePlan(t *testing.T) {
	cold := start(t, nil, 100*mem.GiB, training(64, 6))
	if cold.plan == nil {
		t.Fatal("the first run left no plan")
	}
	warm := start(t, cold.plan, 100*mem.GiB, training(64, 6))
	for i, s := range warm.steps {
		if s.Hits < cold.steps[i].Hits {
			t.Errorf("step %d: %d hits, %d in the first run", i, s.Hits, cold.steps[i].Hits)
		}
	}
	if warm.steps[3].Hits <= cold.steps[3].Hits {
		t.Errorf("step 3: %d hits with the plan, %d without", warm.steps[3].Hits,
			cold.steps[3].Hits)
	}
	if warm.reserved > cold.reserved || !warm.tight() {
		t.Errorf("%v reserved, cold %v, the load's peak is %v", warm.reserved, cold.reserved,
			warm.load)
	}
	if warm.plan != cold.plan {
		t.Error("a run that had nothing to add has another plan")
	}
}

// TestAStalePlanTakesNoMoreMemory: the same program with another batch size, or with fewer
// layers, starts with a plan that is wrong from the first step on.
func TestAStalePlanTakesNoMoreMemory(t *testing.T) {
	layers := func(n int) func(p *drift.Program) {
		return func(p *drift.Program) {
			m := &drift.Model{Layers: n, Width: 96 * mem.MiB, Batch: 64}
			m.Setup(p)
			p.Step()
			for range 8 {
				m.Train(p)
				p.Step()
			}
		}
	}
	// The same requests, of which a checkpointed forward pass frees what the other keeps.
	forward := func(keeps bool) func(p *drift.Program) {
		return func(p *drift.Program) {
			m := &drift.Model{Layers: 40, Width: 48 * mem.MiB, Batch: 64}
			m.Setup(p)
			p.Step()
			for range 8 {
				var kept []drift.Block
				for range 60 {
					x, y := p.Alloc(130*mem.MiB), p.Alloc(7*mem.MiB)
					if kept = append(kept, y); keeps {
						kept = append(kept, x)
					} else {
						p.Free(x)
					}
				}
				for i := range kept {
					p.Free(p.Alloc(9*mem.MiB), kept[len(kept)-1-i])
				}
				p.Step()
			}
		}
	}
	for name, programs := range map[string][2]func(p *drift.Program){
		"less is kept":    {forward(true), forward(false)},
		"more is kept":    {forward(false), forward(true)},
		"a smaller batch": {training(64, 6), training(40, 10)},
		"a larger batch":  {training(40, 6), training(64, 10)},
		"fewer layers":    {layers(60), layers(40)},
		"more layers":     {layers(40), layers(60)},
	} {
		earlier := start(t, nil, 100*mem.GiB, programs[0]).plan
		cold := start(t, nil, 100*mem.GiB, programs[1])
		stale := start(t, earlier, 100*mem.GiB, programs[1])
		t.Logf("%s: %v reserved, %v without the plan", name, stale.reserved, cold.reserved)
		if stale.reserved > cold.reserved+cold.reserved/50 {
			t.Errorf("%s: %v reserved, %v without the plan", name, stale.reserved, cold.reserved)
		}
	}
}

// TestALaterStartAmongHoles: memory is given back in the middle of each step, where other blocks
// lie between, and asked for as one block after it. A plan of an earlier run once had it mapped
// hole by hole, one in a round, and the rounds are counted.
func TestALaterStartAmongHoles(t *testing.T) {
	program := func(p *drift.Program) {
		for range 6 {
			r := rand.New(rand.NewPCG(3, 3))
			blocks := make([]drift.Block, 400)
			for i := range blocks {
				blocks[i] = p.Alloc(4 * mem.MiB)
			}
			r.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
			p.Free(blocks[:200]...)
			p.Trim()
			p.Free(blocks[200:]...)
			p.Free(p.Alloc(1600 * mem.MiB))
			p.Step()
		}
	}
	var earlier *plan.Plan
	for range 2 {
		o := start(t, earlier, 16*mem.GiB, program)
		if o.reserved > 2*o.load {
			t.Errorf("%v reserved for a load of %v", o.reserved, o.load)
		}
		earlier = o.plan
	}
}
