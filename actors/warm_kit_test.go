package actors_test

import (
	"path/filepath"
	"testing"
	"time"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/tests/drift"
)

// outcome is what one start of a program came to.
type outcome struct {
	steps          []drift.Served
	reserved, load mem.Bytes // at their peaks
	plan           *plan.Plan
}

// tight reports whether hardly more was reserved than the load needs.
func (o *outcome) tight() bool { return float64(o.reserved) <= 1.005*float64(o.load) }

// start runs a program over a cache, with plans made at the boundaries.
func start(t *testing.T, cache string, capacity mem.Bytes, program func(p *drift.Program)) outcome {
	t.Helper()
	return run(t, actors.Options{Inline: true, Cache: cache}, capacity, program)
}

func run(t *testing.T, options actors.Options, capacity mem.Bytes, program func(p *drift.Program)) outcome {
	t.Helper()
	device := sim.New(sim.Config{Capacity: capacity})
	var p *drift.Program
	options.Clock = actors.Clock{Now: func() time.Duration { return device.Time() + p.Worked() }}
	local, err := actors.OpenLocal(device, options)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	p = drift.On(local, device)
	program(p)
	if p.Err != nil {
		t.Fatalf("step %d: %v", len(p.Steps()), p.Err)
	}
	for _, err := range append(device.Violations(), local.Check(), device.Check()) {
		if err != nil {
			t.Error(err)
		}
	}
	return outcome{p.Steps(), local.Stats().PeakReserved, p.Peak, local.Plan()}
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
