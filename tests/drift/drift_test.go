package drift

import (
	"slices"
	"testing"
	"time"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// run drives a program three times: without plans; with plans made at the
// boundaries; and so again on a device that has hardly more memory than the pool
// alone needs. Nothing may overlap or be leaked, and memory may not run out.
func run(t *testing.T, program func(p *Program)) runs {
	t.Helper()
	alone, need := drive(t, program, actors.Options{Without: without.Plans}, 400*mem.GiB)
	if len(alone) == 0 {
		t.Fatal("the program has no steps")
	}
	tight, _ := drive(t, program, actors.Options{Inline: true},
		mem.RoundUp(need+need/50, mem.HandleSize))
	steps, reserved := drive(t, program, actors.Options{Inline: true}, 400*mem.GiB)
	for i, s := range steps {
		t.Logf("step %d: %d of %d, on a full device %d", i, s.Hits, s.Requests, tight[i].Hits)
	}
	t.Logf("reserved %v, without plans %v", reserved, need)
	if reserved > need+need/50 {
		t.Errorf("%v were reserved, without plans %v", reserved, need)
	}
	return runs{"": steps, ", on a full device": tight}
}

// runs are the steps of a program, by circumstances.
type runs map[string][]Served

func drive(t *testing.T, program func(p *Program), options actors.Options,
	capacity mem.Bytes) ([]Served, mem.Bytes) {
	t.Helper()
	device := sim.New(sim.Config{Capacity: capacity})
	var p *Program
	options.Clock = actors.Clock{Now: func() time.Duration { return device.Time() + p.Worked() }}
	local, err := actors.OpenLocal(device, options)
	if err != nil {
		t.Fatal(err)
	}
	p = On(local, device)
	program(p)
	if p.Err != nil {
		t.Fatalf("step %d of a program on a device of %v: %v", len(p.Steps()), capacity, p.Err)
	}
	reserved := local.Stats().PeakReserved
	leaks(t, p, local, device)
	return p.Steps(), reserved
}

func leaks(t *testing.T, p *Program, local *actors.Local, device *sim.Device) {
	t.Helper()
	if p.Live() > 0 {
		t.Fatalf("the program left %d blocks", p.Live())
	}
	if load, _ := local.Load(); load != 0 {
		t.Errorf("%v are counted as live at the end", load)
	}
	if err := local.Trim(0); err != nil {
		t.Error(err)
	}
	if s := local.Stats(); s.Load != 0 || s.Pending != 0 || s.Reserved != 0 {
		t.Errorf("at the end %v live, %v pending, %v reserved", s.Load, s.Pending, s.Reserved)
	}
	for _, err := range append(device.Violations(), local.Check(), device.Check()) {
		if err != nil {
			t.Error(err)
		}
	}
}

// most is how many steps may be badly served after each change: two until a step has come again,
// and one for which the memory that is held has no room for a plan.
const most = 3

// recovers requires that of the steps from at on, where something changed, to until no more
// than most are bad. Steps that ask for something else as well are not counted.
func recovers(t *testing.T, all runs, at, until int, others ...int) {
	t.Helper()
	limit(t, all, most, at, until, others)
}

// stays requires that of the steps from at on to until none is bad but those that ask for
// something else.
func stays(t *testing.T, all runs, at, until int, others ...int) {
	t.Helper()
	limit(t, all, 0, at, until, others)
}

func limit(t *testing.T, all runs, most, at, until int, others []int) {
	t.Helper()
	for where, steps := range all {
		var bad []int
		for i, s := range steps[:min(until, len(steps))] {
			if i >= at && s.Bad() && !slices.Contains(others, i) {
				bad = append(bad, i)
			}
		}
		if t.Logf("after the change at step %d%s steps %v were bad", at, where,
			bad); len(bad) > most {
			t.Errorf("that is more than %d", most)
		}
	}
}

// end is behind the last step.
const end = 1 << 20

func repeat(n int, f func()) {
	for range n {
		f()
	}
}

// changing trains a model for six steps, and for six more after each change.
func changing(t *testing.T, from Model, changes ...func(m *Model)) {
	t.Helper()
	steps := run(t, func(p *Program) {
		m := from
		m.Setup(p)
		p.Step()
		train := func() { m.Train(p); p.Step() }
		repeat(6, train)
		for _, change := range changes {
			change(&m)
			repeat(6, train)
		}
		m.Unload(p)
	})
	for i := range len(changes) + 1 {
		recovers(t, steps, 1+6*i, 7+6*i)
	}
}

func TestUnfreezing(t *testing.T) {
	changing(t, Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64, Frozen: 30},
		func(m *Model) { m.Frozen = 16 }, func(m *Model) { m.Frozen = 0 })
}

func TestBatchSize(t *testing.T) {
	changing(t, Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64},
		func(m *Model) { m.Batch = 96 }, func(m *Model) { m.Batch = 40 })
}

func TestGradientAccumulation(t *testing.T) {
	changing(t, Model{Layers: 30, Width: 96 * mem.MiB, Batch: 32, Micro: 4},
		func(m *Model) { m.Micro = 2 }, func(m *Model) { m.Micro = 8 })
}

// TestEvaluationWithinSteps has an evaluation before every fifth step, as where
// boundaries come from the optimizer. It costs that step alone.
func TestEvaluationWithinSteps(t *testing.T) {
	var evaluated []int
	steps := run(t, func(p *Program) {
		m := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
		m.Setup(p)
		p.Step()
		evaluated = nil
		for i := range 30 {
			if i%5 == 4 {
				evaluated = append(evaluated, len(p.Steps()))
				m.Evaluate(p, 4)
			}
			m.Train(p)
			p.Step()
		}
		m.Unload(p)
	})
	recovers(t, steps, 1, 5)
	stays(t, steps, 5, end, evaluated...)
}

// TestMarksWhileGradientsLive has the gradients cleared behind the mark. They take places at the
// boundary, around which no plan fits: blocks are planned where they lay, and the gradients' places
// change from step to step. So plans serve little, and are seldom tried. The steps need no more
// memory than without them, and once they have it hardly a call of the driver, for one block that
// is stitched anew: also with an evaluation in between.
func TestMarksWhileGradientsLive(t *testing.T) {
	steps := run(t, func(p *Program) {
		m := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64, Late: true}
		m.Setup(p)
		p.Step()
		for i := range 40 {
			m.Train(p)
			p.Step()
			if i%5 == 4 {
				m.Evaluate(p, 4)
			}
		}
		m.Zero(p)
		m.Unload(p)
	})
	for where, all := range steps {
		for i, s := range all[8:] {
			if s.Calls > 4 {
				t.Errorf("step %d%s: %d calls of the driver", i+8, where, s.Calls)
			}
		}
	}
}

// TestEvaluationAsSteps has boundaries around every evaluation, which is a kind of its own, and
// comes too seldom to be served. Training is served throughout.
func TestEvaluationAsSteps(t *testing.T) {
	var evaluations []int
	steps := run(t, func(p *Program) {
		m := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
		m.Setup(p)
		p.Step()
		evaluations = nil
		for i := range 30 {
			if i%5 == 4 {
				evaluations = append(evaluations, len(p.Steps()))
				m.Evaluate(p, 4)
				p.Step()
			}
			m.Train(p)
			p.Step()
		}
		m.Unload(p)
	})
	recovers(t, steps, 1, 5)
	stays(t, steps, 5, end, evaluations...)
}

// TestSecondModel trains a second model when the first is done, and then both in turns: one of
// them is served then, and the other does not keep it from that.
func TestSecondModel(t *testing.T) {
	var turns []int // of the first model
	steps := run(t, func(p *Program) {
		a := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
		a.Setup(p)
		p.Step()
		repeat(5, func() { a.Train(p); p.Step() })
		b := &Model{Layers: 50, Width: 48 * mem.MiB, Batch: 48}
		b.Setup(p)
		repeat(6, func() { b.Train(p); p.Step() })
		turns = nil
		repeat(6, func() {
			turns = append(turns,
				len(p.Steps()))
			a.Train(p)
			p.Step()
			b.Train(p)
			p.Step()
		})
		a.Unload(p)
		b.Unload(p)
	})
	recovers(t, steps, 1, 6)
	recovers(t, steps, 6, 12)
	stays(t, steps, 12, end, turns...)
}

// TestException ends a step halfway. The next one begins at once, or behind a
// boundary.
func TestException(t *testing.T) {
	for _, boundary := range []bool{false, true} {
		var at int
		steps := run(t, func(p *Program) {
			m := &Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
			m.Setup(p)
			p.Step()
			train := func() { m.Train(p); p.Step() }
			repeat(6, train)
			at = len(p.Steps())
			p.Free(m.Forward(p)...)
			if boundary {
				p.Step()
			}
			repeat(6, train)
			m.Unload(p)
		})
		recovers(t, steps, at, end)
	}
}
