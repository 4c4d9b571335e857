package actors

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"stalloc/cuda/sim"
	"stalloc/internal/mem"
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
	core, logs := observer.New(zapcore.DebugLevel)
	local, err := OpenLocal(sim.New(sim.Config{}), Options{Inline: true, Log: zap.New(core)})
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
	return l.stepWith(sizes, nil)
}

// stepWith frees some blocks in the middle of a step as soon as it has them.
func (l *looper) stepWith(sizes, brief []mem.Bytes) (hits int) {
	l.t.Helper()
	var live []mem.Addr
	for i, size := range sizes {
		if i == len(sizes)/2 {
			for _, size := range brief {
				l.release(l.malloc(size))
			}
		}
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

// TestWhatAlwaysMissesIsNotPlannedForEver: a part of each step is new every time.
// The plan stays, and is not made again at every step.
func TestWhatAlwaysMissesIsNotPlannedForEver(t *testing.T) {
	l := newLooper(t)
	rng := seeded(t)
	regular := wild(rng, 300)
	for i := range 100 {
		hits := l.stepWith(regular, upTo(mem.MiB, rng, 5))
		if i > 10 && hits < 290 {
			t.Errorf("step %d: %d hits of 300 that come every time", i, hits)
		}
	}
	if n := l.local.Stats().Generation; n > 12 {
		t.Errorf("%d plans were made in 100 steps", n)
	}
}

// TestPlanIsWithdrawn: when steps become wild there are no wishes any more, and when they
// are regular again a plan is soon served again.
func TestPlanIsWithdrawn(t *testing.T) {
	l := newLooper(t)
	rng := seeded(t)
	sizes := wild(rng, 200)
	for range 5 {
		l.step(sizes)
	}
	if l.wishes() == 0 {
		t.Fatal("no plan was served")
	}
	for range 30 {
		l.step(wild(rng, 200))
	}
	if n := l.wishes(); n > 0 {
		t.Errorf("%d wishes are left", n)
	}
	sizes = wild(rng, 150)
	for i := range 5 {
		if hits := l.step(sizes); i >= 3 && hits != 150 {
			t.Errorf("regular again, step %d: %d hits", i, hits)
		}
	}
}

// wishes returns how many entries the first stream's tape of large requests has.
func (l *looper) wishes() int { return len((*l.local.lanes.Load())[0].tapes[0].Entries) }

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
			t.Fatalf("step %d: %d hits of %d; %d plans were made", i, hits, requests, l.local.Stats().Generation)
		}
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
			full("training behind it", train)
		}
	}
}

// TestPlannerSurvivesABug: what makes it panic costs it what it knew, and no more.
func TestPlannerSurvivesABug(t *testing.T) {
	l := newLooper(t)
	sizes := wild(seeded(t), 100)
	l.step(sizes)
	l.local.root.Send(l.local.planner, (*planLoaded)(nil)) // none
	if n := l.logged("the planner failed on one step and starts over with the next"); n != 1 {
		t.Fatalf("the planner failed %d times", n)
	}
	l.local.root.Send(l.local.layout, (*foreseen)(nil)) // of nobody
	if n := l.logged("a step's forecast failed, and the next is made anew"); n != 1 {
		t.Fatalf("the layout failed %d times", n)
	}
	for range 4 {
		l.step(sizes)
	}
	if hits := l.step(sizes); hits != 100 {
		t.Errorf("%d hits behind the planner's failure", hits)
	}
}
