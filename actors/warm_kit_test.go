package actors_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/tests/drift"
)

// outcome is what one start of a program came to.
type outcome struct {
	steps          []drift.Served
	reserved, load mem.Bytes // at their peaks
}

// bad counts the steps that the plan did not serve.
func (o *outcome) bad() (n int) {
	for _, s := range o.steps {
		if s.Bad() {
			n++
		}
	}
	return n
}

// report fails for every step that the plan did not serve.
func (o *outcome) report(t *testing.T) {
	t.Helper()
	for i, s := range o.steps {
		if s.Bad() {
			t.Errorf("step %d: %d of %d requests were hits", i, s.Hits, s.Requests)
		}
	}
}

// tight reports whether hardly more was reserved than the load needs.
func (o *outcome) tight() bool { return float64(o.reserved) <= 1.005*float64(o.load) }

// start runs a program over a cache, with plans made at the boundaries.
func start(t *testing.T, cache string, capacity mem.Bytes, program func(p *drift.Program)) outcome {
	t.Helper()
	return run(t, actors.Options{Inline: true, Cache: cache}, capacity, nil, program)
}

// begin runs a program with plans made at the boundaries or beside it, where each
// takes as long as a step.
func begin(t *testing.T, cache string, beside bool, program func(p *drift.Program)) (o outcome) {
	t.Helper()
	const capacity = 200 * mem.GiB
	if !beside {
		return start(t, cache, capacity, program)
	}
	synctest.Test(t, func(t *testing.T) {
		o = run(t, actors.Options{Cache: cache}, capacity, func() {
			time.Sleep(time.Second) // arenas are mapped ahead where the program makes no requests
			synctest.Wait()
		}, program)
	})
	return o
}

func run(t *testing.T, options actors.Options, capacity mem.Bytes, each func(), program func(p *drift.Program)) outcome {
	t.Helper()
	device := sim.New(sim.Config{Capacity: capacity})
	local, err := actors.OpenLocal(device, options)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	p := drift.On(local, device)
	p.Each = each
	program(p)
	if p.Err != nil {
		t.Fatalf("step %d: %v", len(p.Steps()), p.Err)
	}
	for _, err := range append(device.Violations(), local.Check(), device.Check()) {
		if err != nil {
			t.Error(err)
		}
	}
	return outcome{p.Steps(), local.Stats().PeakReserved, p.Peak}
}

// bothWays runs a test with plans made at the boundaries, and beside the program.
func bothWays(t *testing.T, name string, test func(t *testing.T, beside bool)) {
	t.Run(name+" inline", func(t *testing.T) { test(t, false) })
	t.Run(name+" beside", func(t *testing.T) { test(t, true) })
}

// startAgain starts every program as often as said behind a first start, both ways,
// and has each of the later starts compared with the first.
func startAgain(t *testing.T, often int, programs map[string]func(p *drift.Program), compare func(t *testing.T, cache string, first, later outcome)) {
	for name, program := range programs {
		bothWays(t, name, func(t *testing.T, beside bool) {
			cache := t.TempDir()
			first := begin(t, cache, beside, program)
			for i := range often {
				later := begin(t, cache, beside, program)
				t.Logf("start %d: %v reserved, first %v, the load's peak is %v", i+2, later.reserved, first.reserved, later.load)
				compare(t, cache, first, later)
			}
		})
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
