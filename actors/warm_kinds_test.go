package actors_test

import (
	"path/filepath"
	"testing"

	"stalloc/internal/mem"
	"stalloc/tests/drift"
)

// changing trains with an evaluation at the end of every fifth step, and from step
// 15 on with another batch size. Set-up is part of the first step.
func changing(first, then, steps int) func(p *drift.Program) {
	return func(p *drift.Program) {
		m := &drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: first}
		m.Setup(p)
		for i := range steps {
			if i == 15 {
				m.Batch = then
			}
			m.Train(p)
			if i%5 == 4 {
				m.Evaluate(p, 4)
			}
			p.Step()
		}
	}
}

// behindTheMark does the same where an optimizer marks its steps: the gradients are live
// then, and an evaluation comes before they are cleared, or behind that.
func behindTheMark(first, then, steps int, cleared bool) func(p *drift.Program) {
	return func(p *drift.Program) {
		m := &drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: first, Late: true}
		m.Setup(p)
		for i := range steps {
			if i == 15 {
				m.Batch = then
			}
			m.Train(p)
			p.Step()
			if cleared {
				m.Zero(p)
			}
			if i%5 == 4 {
				m.Evaluate(p, 4)
			}
		}
	}
}

// recording does set-up and first step of a recorded run; nil if it cannot be read.
func recording(p *drift.Program, name string) *drift.Recorded {
	r, err := drift.ReadRecorded(filepath.Join("..", "tests", "traces", name+".csv.gz"))
	if err != nil {
		p.Err = err
		return nil
	}
	r.Start(p)
	p.Step()
	return r
}

// recorded does the same with a recorded step.
func recorded(name string, scale float64, steps int) func(p *drift.Program) {
	return func(p *drift.Program) {
		r := recording(p, name)
		if r == nil {
			return
		}
		for i := 1; i < steps; i++ {
			if i == 15 {
				r.Scale = scale
			}
			r.Train(p)
			if i%5 == 4 {
				r.Evaluate(p)
			}
			p.Step()
		}
	}
}

// everySixth has something change every sixth step.
func everySixth(m drift.Model, change ...func(m *drift.Model)) func(p *drift.Program) {
	return func(p *drift.Program) {
		m := m
		m.Setup(p)
		p.Step()
		for _, c := range append([]func(*drift.Model){func(*drift.Model) {}}, change...) {
			c(&m)
			for range 6 {
				m.Train(p)
				p.Step()
			}
		}
	}
}

// secondModel trains a second model when the first is done, and drops the first.
func secondModel(p *drift.Program) {
	a := &drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64}
	a.Setup(p)
	p.Step()
	for range 8 {
		a.Train(p)
		p.Step()
	}
	a.Unload(p)
	b := &drift.Model{Layers: 50, Width: 48 * mem.MiB, Batch: 48}
	b.Setup(p)
	for range 8 {
		b.Train(p)
		p.Step()
	}
}

// TestLaterStartsReserveLess: the plan that the first run leaves has all kinds of
// its steps, so from the first request of the next run on everything is served from
// it, and no more memory is held than the load needs.
func TestLaterStartsReserveLess(t *testing.T) {
	startAgain(t, 2, map[string]func(p *drift.Program){
		"a larger batch":          changing(64, 96, 30),
		"a smaller batch":         changing(96, 64, 30),
		"marks of the optimizer":  behindTheMark(64, 96, 30, false),
		"the same, then smaller":  behindTheMark(96, 64, 30, false),
		"recorded, larger batch":  recorded("llama_naive", 1.5, 30),
		"recorded, smaller batch": recorded("llama_recompute", 0.7, 30),
	}, func(t *testing.T, cache string, first, later outcome) {
		if later.reserved > first.reserved || !later.tight() {
			t.Errorf("%v reserved, at the first start %v; the load's peak is %v", later.reserved, first.reserved, later.load)
		}
		later.report(t)
		if n := len(files(t, cache)); n != 1 {
			t.Errorf("there are %d plans in the cache", n)
		}
	})
}

// TestLaterStartsKnowMore: a first run that was too short to see everything leaves
// a plan of what it saw, a second one that goes further a better one.
func TestLaterStartsKnowMore(t *testing.T) {
	cache := t.TempDir()
	begin(t, cache, false, changing(64, 96, 9))
	alone := begin(t, t.TempDir(), false, changing(64, 96, 30)).reserved
	second := begin(t, cache, false, changing(64, 96, 30)).reserved
	third := begin(t, cache, false, changing(64, 96, 30))
	t.Logf("reserved %v without a plan, then %v and %v; the load's peak is %v", alone, second, third.reserved, third.load)
	if second > alone+alone/100 || third.reserved > second || !third.tight() {
		t.Errorf("reserved %v without a plan, then %v and %v; the load's peak is %v", alone, second, third.reserved, third.load)
	}
	third.report(t)
}

// TestChangingProgramsReserveNoMore: programs that change so often that no plan has
// all of it reserve hardly more than at their first start.
func TestChangingProgramsReserveNoMore(t *testing.T) {
	startAgain(t, 3, map[string]func(p *drift.Program){
		"unfreezing": everySixth(drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64, Frozen: 30},
			func(m *drift.Model) { m.Frozen = 16 }, func(m *drift.Model) { m.Frozen = 0 }),
		"accumulation": everySixth(drift.Model{Layers: 30, Width: 96 * mem.MiB, Batch: 32, Micro: 4},
			func(m *drift.Model) { m.Micro = 2 }, func(m *drift.Model) { m.Micro = 8 }),
		"gradients freed late":  everySixth(drift.Model{Layers: 40, Width: 96 * mem.MiB, Batch: 64, Late: true}),
		"marks of an optimizer": behindTheMark(64, 96, 30, true),
		"a second model":        secondModel,
	}, func(t *testing.T, _ string, first, later outcome) {
		if later.reserved > first.reserved+first.reserved/100 {
			t.Errorf("%v reserved, at the first start %v; the load's peak is %v", later.reserved, first.reserved, later.load)
		}
	})
}
