package actors_test

import (
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

// start runs a program, with plans made at the boundaries, that knows the plan of an earlier run;
// nil: of none.
func start(t *testing.T, earlier *plan.Plan, capacity mem.Bytes,
	program func(p *drift.Program)) outcome {
	t.Helper()
	return run(t, actors.Options{Inline: true, Plan: earlier}, capacity, program)
}

func run(t *testing.T, options actors.Options, capacity mem.Bytes,
	program func(p *drift.Program)) outcome {
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
