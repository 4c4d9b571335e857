package period

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// merge fires at the given places and returns those that end a step.
func merge(firings []int) []int {
	var h Hooks
	var ends []int
	for _, at := range firings {
		if h.Fire(mem.Tick(at)) {
			ends = append(ends, at)
		}
	}
	return ends
}

// TestHooksOnRecordings fires one to five times between the mark "optimizer" of
// a step and the end of that step. The last firing of each must be the boundary,
// from the second step on.
func TestHooksOnRecordings(t *testing.T) {
	tested := 0
	for _, r := range recordings(t) {
		if len(r.optimizers) == 0 {
			continue // Megatron's marks name steps only
		}
		tested++
		for n := 1; n <= 5; n++ {
			var firings, want []int
			for i, begin := range r.optimizers {
				length := r.steps[i] - begin
				for k := 1; k <= n; k++ {
					firings = append(firings, begin+length*k/n)
				}
				if i > 0 {
					want = append(want, r.steps[i])
				}
			}
			if got := merge(firings); !slices.Equal(got, want) {
				t.Errorf("%s, %d optimizers: boundaries at %v, want %v (fired at %v)", r.name, n, got, want, firings)
			}
		}
	}
	if tested == 0 {
		t.Error("no recording has a mark \"optimizer\"")
	}
}

// TestHooksGroups describes a step as the gaps before its firings.
func TestHooksGroups(t *testing.T) {
	for _, c := range []struct {
		name   string
		setup  int
		steps  [][]int
		missed int // boundaries that may be missing, all told
		last   []int
	}{
		{"one", 500, [][]int{{9000}}, 1, []int{0}},
		{"generator and discriminator in a row", 500, [][]int{{9000, 300}}, 1, []int{1}},
		{"one per parameter, during backward", 200, [][]int{{5000, 90, 80, 95, 400, 90, 80, 95}}, 1, []int{7}},
		{"one steps every second time", 500, [][]int{{9000}, {9000, 300}}, 1, []int{0, 0}},
		{"scaler skips a step", 500, [][]int{{9000}, {9000}, {9000}, {18000}}, 1, []int{0, 0, 0, 0}},
		{"long set-up", 100000, [][]int{{9000}}, 4*100000/9000 + 8, []int{0}},
		{"lengths vary", 500, [][]int{{9000, 200}, {6000, 180}, {12000, 260}}, 1, []int{1, 1, 1}},
		{"each with its own backward", 500, [][]int{{5000}, {9000}}, 1, []int{0, 0}},
	} {
		var firings, want []int
		at := c.setup
		for i := range 100 {
			s := c.steps[i%len(c.steps)]
			for k, gap := range s {
				at += gap
				firings = append(firings, at)
				if k == c.last[i%len(c.last)] {
					want = append(want, at)
				}
			}
		}
		got := merge(firings)
		settled := len(got) >= len(want)-c.missed && slices.Equal(got, want[len(want)-len(got):])
		if !settled {
			t.Errorf("%s: boundaries at %v, want the last of %v", c.name, got, want)
		}
	}
}

// TestHooksDuringBackward: with one optimizer per layer the first firing of a
// step comes while nearly all activations are live. The boundary must be at the
// last, where the load is lowest.
func TestHooksDuringBackward(t *testing.T) {
	p := &program{}
	m := newModel(12, 2048)
	m.fused = true
	p.create(m)
	for range 10 {
		p.train(m, 2048)
		p.mark()
	}
	ends := merge(p.fired)
	if len(ends) != 9 {
		t.Fatalf("%d boundaries in 10 steps: %v, fired at %v", len(ends), ends, p.fired)
	}
	load, at := mem.Bytes(0), map[int]mem.Bytes{}
	for i, e := range p.events {
		at[i] = load
		load += e
	}
	for i, end := range ends {
		for _, fired := range p.fired[12*(i+1) : 12*(i+2)] {
			if at[fired] < at[end] {
				t.Errorf("step %d: boundary at %d with a load of %v, fired at %d with %v", i+1, end, at[end], fired, at[fired])
			}
		}
	}
}

// TestHooksRandom draws groups whose inner gaps are short and whose outer gaps
// are long. Each group must have at most one boundary, and from the third on
// exactly one, at its last firing.
func TestHooksRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		n, outer := 1+rng.IntN(20), 1000+rng.IntN(100000)
		var firings, want []int
		at := 0
		for i := range 30 {
			at += outer/2 + rng.IntN(outer)
			for k := range n {
				if k > 0 {
					at += 1 + rng.IntN(outer/200)
				}
				firings = append(firings, at)
			}
			if i > 0 {
				want = append(want, at)
			}
		}
		if got := merge(firings); !slices.Equal(got, want) {
			t.Fatalf("groups of %d, outer gaps about %d: %s", n, outer, difference(got, want))
		}
	}
}

func difference(got, want []int) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("boundary %d at %d, want %d", i, got[i], want[i])
		}
	}
	return fmt.Sprintf("%d boundaries, want %d", len(got), len(want))
}
