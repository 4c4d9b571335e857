package actors_test

import (
	"os"
	"path/filepath"
	"testing"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/tests/drift"
)

// start runs a program over a cache and returns its steps and the memory it
// needed.
func start(t *testing.T, cache string, capacity mem.Bytes, program func(p *drift.Program)) ([]drift.Served, mem.Bytes, mem.Bytes) {
	t.Helper()
	device := sim.New(sim.Config{Capacity: capacity})
	local, err := actors.OpenLocal(device, actors.Options{Inline: true, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	p := drift.On(local)
	program(p)
	if p.Err != nil {
		t.Fatalf("step %d: %v", len(p.Steps()), p.Err)
	}
	for _, err := range append(device.Violations(), local.Check(), device.Check()) {
		if err != nil {
			t.Error(err)
		}
	}
	return p.Steps(), local.Stats().PeakReserved, p.Peak
}

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

// files returns the plans in a cache.
func files(t *testing.T, cache string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(cache, "*.plan"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestTheNextRunStartsWithThePlan(t *testing.T) {
	cache := t.TempDir()
	_, cold, _ := start(t, cache, 100*mem.GiB, training(64, 6))
	if n := len(files(t, cache)); n != 1 {
		t.Fatalf("the first run left %d plans", n)
	}
	steps, warm, load := start(t, cache, 100*mem.GiB, training(64, 6))
	for i, s := range steps {
		if s.Bad() {
			t.Errorf("step %d: %d of %d requests were hits", i, s.Hits, s.Requests)
		}
	}
	if warm > cold || float64(warm) > 1.005*float64(load) {
		t.Errorf("%v reserved, cold %v, the load's peak is %v", warm, cold, load)
	}
	if n := len(files(t, cache)); n != 1 {
		t.Errorf("a run that had nothing to add left %d plans", n)
	}
}

// TestAnotherProgramIsRecognisedLater: run another way, the plan of the same model
// is found by its first requests, and begins behind what the pool has served.
func TestAnotherProgramIsRecognisedLater(t *testing.T) {
	cache := t.TempDir()
	start(t, cache, 100*mem.GiB, training(64, 6))
	old := files(t, cache)[0]
	name := []byte(filepath.Base(old))
	copy(name[4*9:], "00000000") // the program's key
	if err := os.Rename(old, filepath.Join(cache, string(name))); err != nil {
		t.Fatal(err)
	}
	device := sim.New(sim.Config{Capacity: 100 * mem.GiB})
	local, err := actors.OpenLocal(device, actors.Options{Inline: true, Cache: cache})
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	p := drift.On(local)
	training(64, 4)(p)
	if p.Err != nil {
		t.Fatal(p.Err)
	}
	for i, s := range p.Steps() {
		t.Logf("step %d: %d of %d", i, s.Hits, s.Requests)
	}
	steps := p.Steps()
	if steps[0].Hits < steps[0].Requests-80 || steps[1].Bad() || steps[4].Bad() {
		t.Error("the plan was not found, or did not serve what was left")
	}
	if reserved := local.Stats().PeakReserved; float64(reserved) > 1.005*float64(p.Peak) {
		t.Errorf("%v reserved, the load's peak is %v: what the pool served first has room in the arena as well", reserved, p.Peak)
	}
}

// TestAStalePlanCostsMissesOnly: the same program with another batch size starts
// with a plan that is wrong from the first step on, on a device that hardly has
// more memory than the run needs without it.
func TestAStalePlanCostsMissesOnly(t *testing.T) {
	for _, batches := range [][2]int{{64, 40}, {40, 64}} {
		cache := t.TempDir()
		start(t, cache, 100*mem.GiB, training(batches[0], 6))
		_, need, _ := start(t, t.TempDir(), 100*mem.GiB, training(batches[1], 10))
		steps, reserved, _ := start(t, cache, mem.RoundUp(need+need/50, mem.HandleSize), training(batches[1], 10))
		bad := 0
		for i, s := range steps {
			t.Logf("step %d: %d of %d", i, s.Hits, s.Requests)
			if s.Bad() {
				bad++
			}
		}
		if bad > 3 {
			t.Errorf("batch %d after %d: %d bad steps", batches[1], batches[0], bad)
		}
		t.Logf("reserved %v, cold %v", reserved, need)
		if n := len(files(t, cache)); n != 2 {
			t.Errorf("%d plans in the cache, expected one of each batch size", n)
		}
	}
}

func TestABrokenCacheIsNoTrouble(t *testing.T) {
	cache := t.TempDir()
	start(t, cache, 100*mem.GiB, training(64, 6))
	path := files(t, cache)[0]
	if err := os.WriteFile(path, []byte("STALLOCP"), 0o644); err != nil {
		t.Fatal(err)
	}
	steps, _, _ := start(t, cache, 100*mem.GiB, training(64, 6))
	if last := steps[len(steps)-1]; last.Bad() {
		t.Errorf("behind a broken file the last step was bad: %+v", last)
	}
	if n := len(files(t, cache)); n != 1 {
		t.Errorf("%d plans in the cache, expected a new one", n)
	}
	start(t, filepath.Join(path, "no folder"), 100*mem.GiB, training(64, 4))
}
