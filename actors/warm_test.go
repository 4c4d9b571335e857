package actors_test

import (
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
	warm.report(t)
	if warm.reserved > cold.reserved || !warm.tight() {
		t.Errorf("%v reserved, cold %v, the load's peak is %v", warm.reserved, cold.reserved, warm.load)
	}
	if n := len(files(t, cache)); n != 1 {
		t.Errorf("a run that had nothing to add left %d plans", n)
	}
}

// TestAStepBeforeTheFirstRequestIsNone: a program that marks a step before it has asked for anything
// is served by its plan all the same.
func TestAStepBeforeTheFirstRequestIsNone(t *testing.T) {
	cache := t.TempDir()
	program := func(p *drift.Program) {
		p.Step()
		training(64, 6)(p)
	}
	start(t, cache, 100*mem.GiB, program)
	again := start(t, cache, 100*mem.GiB, program)
	for i, s := range again.steps[2:] { // the first has no request
		if s.Bad() {
			t.Errorf("step %d: %d of %d requests were hits", i+2, s.Hits, s.Requests)
		}
	}
}

// TestAnotherProgramIsRecognisedLater: run another way, the plan of the same model
// is found by its first requests, and begins behind what was served by then.
func TestAnotherProgramIsRecognisedLater(t *testing.T) {
	cache, path := trained(t)
	name := []byte(filepath.Base(path))
	copy(name[4*9:], "00000000") // the program's key
	if err := os.Rename(path, filepath.Join(cache, string(name))); err != nil {
		t.Fatal(err)
	}
	again := start(t, cache, 100*mem.GiB, training(64, 12))
	steps := again.steps
	for i, s := range steps[2:] { // set-up lies where the plan has others of it
		if i < 3 && s.Hits < s.Requests*3/4 || i >= 3 && s.Bad() { // until there is a plan of this run
			t.Errorf("step %d: %d of %d requests were hits", i+2, s.Hits, s.Requests)
		}
	}
	if !again.tight() {
		t.Errorf("%v reserved, the load's peak is %v: what was served first has its place in the plan as well", again.reserved, again.load)
	}
}

func TestABrokenCacheIsNoTrouble(t *testing.T) {
	cache, path := trained(t)
	if err := os.WriteFile(path, []byte("STALLOCP"), 0o644); err != nil {
		t.Fatal(err)
	}
	steps := start(t, cache, 100*mem.GiB, training(64, 6)).steps
	if last := steps[len(steps)-1]; last.Bad() {
		t.Errorf("behind a broken file the last step was bad: %+v", last)
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
