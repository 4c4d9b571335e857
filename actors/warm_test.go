package actors_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"stalloc/internal/mem"
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

// trained returns a cache in which a run has left its plan, and the plan's file.
func trained(t *testing.T) (cache, path string) {
	t.Helper()
	cache = t.TempDir()
	start(t, cache, 100*mem.GiB, training(64, 6))
	left := files(t, cache)
	if len(left) != 1 {
		t.Fatalf("the first run left %d plans", len(left))
	}
	return cache, left[0]
}

func TestTheNextRunStartsWithThePlan(t *testing.T) {
	cache := t.TempDir()
	cold := start(t, cache, 100*mem.GiB, training(64, 6))
	if n := len(files(t, cache)); n != 1 {
		t.Fatalf("the first run left %d plans", n)
	}
	warm := start(t, cache, 100*mem.GiB, training(64, 6))
	for i, s := range warm.steps {
		if s.Hits < cold.steps[i].Hits {
			t.Errorf("step %d: %d hits, %d in the first run", i, s.Hits, cold.steps[i].Hits)
		}
	}
	if warm.reserved > cold.reserved || !warm.tight() {
		t.Errorf("%v reserved, cold %v, the load's peak is %v", warm.reserved, cold.reserved, warm.load)
	}
	if n := len(files(t, cache)); n != 1 {
		t.Errorf("a run that had nothing to add left %d plans", n)
	}
}

// TestAnotherProgramIsRecognised: run another way, the plan of the same model is found by its
// first requests.
func TestAnotherProgramIsRecognised(t *testing.T) {
	cache, path := trained(t)
	name := []byte(filepath.Base(path))
	copy(name[17:], "00000000") // the program's key
	if err := os.Rename(path, filepath.Join(cache, string(name))); err != nil {
		t.Fatal(err)
	}
	if again := start(t, cache, 100*mem.GiB, training(64, 12)); again.plan == nil || !again.tight() {
		t.Errorf("plan %v; %v reserved, the load's peak is %v", again.plan != nil, again.reserved, again.load)
	}
}

func TestABrokenCacheIsNoTrouble(t *testing.T) {
	cache, path := trained(t)
	if err := os.WriteFile(path, []byte("STALLOCP"), 0o644); err != nil {
		t.Fatal(err)
	}
	steps := start(t, cache, 100*mem.GiB, training(64, 6)).steps
	if last := steps[len(steps)-1]; last.Bad() {
		t.Errorf("after a broken file the last step was bad: %+v", last)
	}
	if n := len(files(t, cache)); n != 1 {
		t.Errorf("%d plans in the cache, expected a new one", n)
	}
	start(t, filepath.Join(path, "no folder"), 100*mem.GiB, training(64, 4))
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
		cache := t.TempDir()
		start(t, cache, 100*mem.GiB, programs[0])
		cold := start(t, t.TempDir(), 100*mem.GiB, programs[1])
		stale := start(t, cache, 100*mem.GiB, programs[1])
		t.Logf("%s: %v reserved, %v without the plan", name, stale.reserved, cold.reserved)
		if stale.reserved > cold.reserved+cold.reserved/50 {
			t.Errorf("%s: %v reserved, %v without the plan", name, stale.reserved, cold.reserved)
		}
	}
}

// TestALaterStartAmongHoles: memory is given back in the middle of each step, where other blocks lie
// between, and asked for as one block after it. A plan of an earlier run once had it mapped hole by
// hole, one in a round, and the rounds are counted.
func TestALaterStartAmongHoles(t *testing.T) {
	cache := t.TempDir()
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
	for range 2 {
		if o := start(t, cache, 16*mem.GiB, program); o.reserved > 2*o.load {
			t.Errorf("%v reserved for a load of %v", o.reserved, o.load)
		}
	}
}
