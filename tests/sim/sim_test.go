// Package sim runs the whole allocator, actors and all, through random scenarios: a few threads
// with a stream each, steps that repeat, drift or break off, or that nobody marks, driver calls
// that fail, actors that panic, a device that is too small, and at times GMLake's algorithm.
// Each scenario is drawn from a seed and runs in a bubble of testing/synctest, where time passes
// only when nobody has anything to do: threads that sleep wake in the order the seed says, and who
// waits forever is found out.
//
// A model of the device's memory follows every block to the bytes of the handles
// behind it. What must hold, whatever happens:
//
//   - every request is answered, with a block or an error;
//
//   - no byte belongs to two blocks, nor to one while a stream that the program
//     named still uses it for another;
//
//   - a live block keeps its memory;
//
//   - the allocator's own recounts add up, and the device saw no rule broken;
//
//   - what was freed is free, and at the end nothing is left on the device.
//
//     go test ./tests/sim -scenarios 10000 -budget 10m
//     go test ./tests/sim -seed 1234
package sim

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"stalloc/engine/onerange"
	"stalloc/internal/mem"
)

var (
	most   = flag.Int("scenarios", 400, "how many scenarios to run")
	budget = flag.Duration("budget", 15*time.Second, "begin no scenario after so long")
	first  = flag.Uint64("seed", 0, "run the one scenario of this seed")
)

// totals say whether the scenarios were interesting.
type totals struct {
	scenarios, requests, refused, hits, plans, stitches, syncs, evicted int64
	adopted, faults, panics, warm                                       int64
}

func (sum *totals) add(r *run) {
	sum.requests += r.answered.Load()
	sum.refused += r.refused.Load()
	sum.hits += int64(r.hits)
	sum.plans += int64(r.plans)
	sum.stitches += int64(r.stats.Stitches)
	sum.syncs += int64(r.stats.Syncs)
	sum.evicted += int64(r.stats.Evicted)
	sum.adopted += int64(r.stats.Adopted)
	sum.faults += int64(r.fault.Injected())
}

// TestScenarios runs scenarios from a random seed on.
func TestScenarios(t *testing.T) {
	from, n := uint64(time.Now().UnixNano())%1e9*1000, *most
	if *first != 0 {
		from, n = *first, 1
	}
	t.Logf("seeds from %d", from)
	var sum totals
	began := time.Now()
	for i := 0; i < n && time.Since(began) < *budget; i++ {
		seed := from + uint64(i)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { play(t, seed, &sum) }) {
			t.Fatalf("seed %d failed; repeat it with -seed %d", seed, seed)
		}
	}
	t.Logf("%+v in %v", sum, time.Since(began).Round(time.Millisecond))
	if sum.scenarios >= 100 && (sum.refused == 0 || sum.hits < sum.requests/100 || sum.plans == 0 ||
		sum.stitches == 0 || sum.syncs == 0 ||
		sum.adopted == 0 || sum.faults == 0 || sum.panics == 0 || sum.warm == 0) {
		t.Error("the scenarios were too quiet to prove anything")
	}
}

// play runs an allocator from start to end, and half of the time another one that
// starts with its plan, which it then may not follow exactly.
func play(t *testing.T, seed uint64, sum *totals) {
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("seed %d: %v", seed, r)
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(seed)
		r := &run{scenario: s}
		if err := r.play(); err != nil {
			t.Errorf("seed %d: %+v: %v", seed, s.settings(), err)
		}
		sum.add(r)
		if r.last != nil && !t.Failed() && seed%2 == 0 {
			again := newScenario(seed)
			again.chaos.off = s.random.IntN(2) == 0
			r = &run{scenario: again, warm: r.last}
			if s.random.IntN(2) == 0 {
				again.noise = 0.05 * s.random.Float64()
			}
			if err := r.play(); err != nil {
				t.Errorf("seed %d, second start: %+v: %v", seed, again.settings(), err)
			}
			sum.warm++
			sum.add(r)
		}
		sum.scenarios++
		sum.panics += int64(s.chaos.thrown)
		time.Sleep(time.Minute) // what still runs ends, or is found out
	})
}

// TestUnmarked: where nobody marks steps, crude ones end by themselves, in the middle of a
// request on any thread, and nothing is planned.
func TestUnmarked(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if *first != 0 {
		seed = *first
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScenario(seed)
		s.streams, s.steps, s.silent, s.noise, s.lake = 3, 0, true, 0.01, nil
		s.tight, s.cramped, s.meddles, s.loose = false, false, false, false
		s.always, s.broken, s.lies, s.faults = false, false, false, nil
		s.ranged, s.capacity, s.chaos = onerange.DefaultConfig(), 8*mem.GiB, newChaos(seed)
		s.weights, s.state, s.gradients = make([][]mem.Bytes, s.streams), make([][]mem.Bytes,
			s.streams), make([][]mem.Bytes, s.streams)
		s.draw()
		r := &run{scenario: s}
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
		for step := 0; r.local.Stats().Steps < 2; step++ {
			if step == 5000 {
				t.Fatalf("seed %d: no step ended in %d requests and frees", seed, r.answered.Load())
			}
			r.step(step)
			if err := r.settled(); err != nil {
				t.Fatalf("seed %d, after step %d: %v", seed, step, err)
			}
		}
		if err := r.end(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if r.hits != 0 || r.last != nil {
			t.Errorf("seed %d: steps that nobody marked were planned: %d hits", seed, r.hits)
		}
		time.Sleep(time.Minute)
	})
}

// settings are the scenario without what is drawn from them.
func (s *scenario) settings() string {
	return fmt.Sprintf("streams %d steps %d kinds %d drift %d noise %.3f aborts %v loose %t silent %t meddles %t inline %t always %t tight %t largest %v capacity %v lake %t range %+v faults %+v lies %t panics %d broken %t slow %d",
		s.streams, s.steps, s.kinds, s.drift, s.noise, s.aborts, s.loose, s.silent, s.meddles,
		s.inline, s.always, s.tight, s.largest, s.capacity, s.lake != nil, s.ranged, s.faults,
		s.lies, s.chaos.thrown, s.broken, s.chaos.slow)
}
