package actors

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/actors/planner"
	"stalloc/cuda/sim"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/stream/schedule"
)

// looper runs steps of given sizes on a device whose planner is watched through
// what it logs.
type looper struct {
	t     *testing.T
	local *Local
	logs  *observer.ObservedLogs
	hits  uint64
}

func newLooper(t *testing.T) *looper {
	t.Helper()
	return newLooperWith(t, Options{})
}

func newLooperWith(t *testing.T, opts Options) *looper {
	t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	opts.Inline, opts.Log = true, zap.New(core)
	local, err := OpenLocal(sim.New(sim.Config{}), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	return &looper{t: t, local: local, logs: logs}
}

// step requests the sizes, frees the blocks, the last one first, and returns how
// many requests a plan served.
func (l *looper) step(sizes []mem.Bytes) (hits int) {
	l.t.Helper()
	var live []mem.Addr
	for _, size := range sizes {
		live = append(live, l.malloc(size))
	}
	for i := len(live) - 1; i >= 0; i-- {
		l.release(live[i])
	}
	if err := errors.Join(l.local.Step(), l.local.Check()); err != nil {
		l.t.Fatal(err)
	}
	was := l.hits
	l.hits = l.local.Stats().Hits
	return int(l.hits - was)
}

func (l *looper) malloc(size mem.Bytes) mem.Addr {
	l.t.Helper()
	addr, err := l.local.Malloc(0, size)
	if err != nil {
		l.t.Fatal(err)
	}
	return addr
}

func (l *looper) release(addr mem.Addr) {
	l.t.Helper()
	if err := l.local.Release(addr); err != nil {
		l.t.Fatal(err)
	}
}

func (l *looper) logged(message string) int { return l.logs.FilterMessage(message).Len() }

func seeded(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// wild returns n sizes that no other step has: large ones, as small ones are few.
func wild(rng *rand.Rand, n int) []mem.Bytes {
	sizes := upTo(64*mem.MiB, rng, n)
	for i := range sizes {
		sizes[i] += 64 * mem.KiB
	}
	return sizes
}

func upTo(most mem.Bytes, rng *rand.Rand, n int) (sizes []mem.Bytes) {
	for range n {
		sizes = append(sizes, 1+mem.Bytes(rng.Int64N(int64(most))))
	}
	return sizes
}

func TestPlanServesTheThirdStep(t *testing.T) {
	l := newLooper(t)
	sizes := wild(seeded(t), 200)
	for i, want := range []int{0, 0, 200, 200, 200} {
		if hits := l.step(sizes); hits < want || i == 0 && hits > 0 {
			t.Errorf("step %d: %d hits, expected %d", i, hits, want)
		}
	}
	if n := l.local.Stats().Generation; n != 1 {
		t.Errorf("%d plans were made for a step that is always the same", n)
	}
}

// TestWildStepsAreLeftAlone: no plan is served, and the memory is as tight as without.
func TestWildStepsAreLeftAlone(t *testing.T) {
	l := newLooper(t)
	rng := seeded(t)
	for range 150 {
		if hits := l.step(wild(rng, 100)); hits > 0 {
			t.Fatalf("%d hits", hits)
		}
	}
	if n := l.local.Stats().Generation; n > 0 {
		t.Errorf("%d plans were made for 150 steps that never repeat", n)
	}
	_, peak := l.local.Load()
	if s := l.local.Stats(); s.PeakReserved > peak+peak/50 {
		t.Errorf("%v are reserved for a load of %v", s.PeakReserved, peak)
	}
}

// TestWhatIsNearlyTheSameIsNotPlanned: a part of each step is new every time. What a plan would
// get wrong costs more than what it would get right saves.
func TestWhatIsNearlyTheSameIsNotPlanned(t *testing.T) {
	l := newLooper(t)
	rng := seeded(t)
	regular := wild(rng, 300)
	for range 50 {
		if hits := l.step(slices.Insert(slices.Clone(regular), 150, wild(rng, 5)...)); hits > 0 {
			t.Fatalf("%d hits", hits)
		}
	}
	if n := l.local.Stats().Generation; n > 0 {
		t.Errorf("%d plans were made in 50 steps", n)
	}
}

// TestAStrayEndsThePlanForItsStep: after a request that is not the expected one nothing is
// served from the plan until the next step, which is served as before.
func TestAStrayEndsThePlanForItsStep(t *testing.T) {
	l := newLooper(t)
	sizes := wild(seeded(t), 200)
	for range 4 {
		l.step(sizes)
	}
	if hits := l.step(slices.Insert(slices.Clone(sizes), 100, 777*mem.KiB)); hits != 100 {
		t.Errorf("%d hits in a step with an odd request in its middle, expected those before it, 100",
			hits)
	}
	if hits := l.step(sizes); hits != 200 {
		t.Errorf("%d hits in the step after it", hits)
	}
	if n := l.local.Stats().Generation; n != 1 {
		t.Errorf("%d plans were made", n)
	}
}

// TestPlanIsWithdrawn: when steps become wild there is no schedule any more, and when they
// are regular again a plan is soon served again.
func TestPlanIsWithdrawn(t *testing.T) {
	l := newLooper(t)
	rng := seeded(t)
	sizes := wild(rng, 200)
	for range 5 {
		l.step(sizes)
	}
	if l.planned() == 0 {
		t.Fatal("no plan was served")
	}
	for range 30 {
		l.step(wild(rng, 200))
	}
	if n := l.planned(); n > 0 {
		t.Errorf("%d planned offsets are left", n)
	}
	sizes = wild(rng, 150)
	for i := range 5 {
		if hits := l.step(sizes); i >= 3 && hits != 150 {
			t.Errorf("regular again, step %d: %d hits", i, hits)
		}
	}
}

// planned returns how many entries the schedule of the first stream's large requests has.
func (l *looper) planned() int {
	if r := l.local.streams.All()[0].Schedules()[schedule.Large]; r != nil {
		return len(r.Entries)
	}
	return 0
}

// TestPlanStaysWhileItHits: blocks of all sizes that end in any order are hard to
// pack. What has a place stays where it is.
func TestPlanStaysWhileItHits(t *testing.T) {
	l := newLooper(t)
	const most, requests = 200, 1000
	step := func() (hits int) {
		rng := rand.New(rand.NewPCG(7, 7)) // the same in every step
		var live [most]mem.Addr
		for i := range requests {
			at := i
			if i >= most {
				at = rng.IntN(most)
				if err := l.local.Release(live[at]); err != nil {
					t.Fatal(err)
				}
			}
			addr, err := l.local.Malloc(0, 1+mem.Bytes(rng.Int64N(int64(8*mem.MiB))))
			if err != nil {
				t.Fatal(err)
			}
			live[at] = addr
		}
		for _, addr := range live {
			if err := l.local.Release(addr); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.local.Step(); err != nil {
			t.Fatal(err)
		}
		was := l.hits
		l.hits = l.local.Stats().Hits
		return int(l.hits - was)
	}
	for i := range 40 {
		if hits := step(); i > 3 && hits != requests {
			t.Fatalf("step %d: %d hits of %d; %d plans were made", i, hits, requests,
				l.local.Stats().Generation)
		}
	}
}

// TestALaterRunKnowsItsSteps: after a first step that asks for all that a kind of an earlier run's
// did, set-up besides, the second is served; a first start serves the fourth.
func TestALaterRunKnowsItsSteps(t *testing.T) {
	l := newLooper(t)
	sizes := wild(seeded(t), 200)
	for range 3 {
		l.step(sizes)
	}
	left := l.local.Plan()
	if left == nil || len(left.Steps) != 1 || len(left.Steps[0].Requests) != 200 {
		t.Fatalf("a run left %+v", left)
	}
	hold := left.Steps[0].Placed().Makespan
	for _, known := range []*plan.Plan{nil, left} {
		run := newLooperWith(t, Options{Plan: known})
		run.step(append([]mem.Bytes{hold + hold/50}, sizes...))
		for i, first := range []bool{false, false, true} { // of a first start
			want := 0
			if known != nil || first {
				want = 200
			}
			if hits := run.step(sizes); hits != want {
				t.Errorf("an earlier run is known %v: step %d has %d hits, want %d", known != nil,
					i+1, hits, want)
			}
		}
	}
	other := newLooperWith(t, Options{Plan: left})
	other.step([]mem.Bytes{hold + hold/50})
	for i, sizes := range [][]mem.Bytes{wild(seeded(t), 200), wild(seeded(t), 200),
		wild(seeded(t), 200)} {
		if hits := other.step(sizes); hits > 0 {
			t.Errorf("step %d of another program: %d hits", i, hits)
		}
	}
	if n := other.planned(); n > 0 {
		t.Errorf("%d planned offsets of an earlier run are left", n)
	}
}

// TestKindsOfSteps: where one other step comes in between, those around it are served all the
// same; where another kind goes on, its plan is served from its third step on.
func TestKindsOfSteps(t *testing.T) {
	l := newLooper(t)
	rng := seeded(t)
	train, evaluate := wild(rng, 200), wild(rng, 80)
	full := func(when string, sizes []mem.Bytes) {
		t.Helper()
		if hits := l.step(sizes); hits != len(sizes) {
			t.Errorf("%s: %d hits of %d", when, hits, len(sizes))
		}
	}
	for i := range 20 {
		if i%4 == 3 {
			l.step(evaluate)
		} else if i < 2 {
			l.step(train)
		} else {
			full("training around evaluations", train)
		}
	}
	for range 3 {
		for i := range 5 {
			if i < 2 {
				l.step(evaluate)
				continue
			}
			full("evaluation that goes on", evaluate)
		}
		for i := range 5 {
			if i < 2 {
				l.step(train)
				continue
			}
			full("training after it", train)
		}
	}
}

// TestPlannerSurvivesABug: what makes it panic costs it what it knew, and no more.
func TestPlannerSurvivesABug(t *testing.T) {
	l := newLooper(t)
	sizes := wild(seeded(t), 100)
	l.step(sizes)
	l.local.system.Send(l.local.planner, (*planner.Loaded)(nil)) // none
	if n := l.logged("the planner failed on one step and starts over with the next"); n != 1 {
		t.Fatalf("the planner failed %d times", n)
	}
	for range 4 {
		l.step(sizes)
	}
	if hits := l.step(sizes); hits != 100 {
		t.Errorf("%d hits after the planner's failure", hits)
	}
}
