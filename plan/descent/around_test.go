package descent

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"stalloc/internal/mem"
)

// randomFixed returns blocks with gaps of all sizes between them, some of which end.
func randomFixed(rng *rand.Rand, n, ticks, maxSize int) []Fixed {
	var fixed []Fixed
	at := mem.Offset(0)
	for range n {
		if rng.IntN(3) > 0 {
			at += mem.Offset(rng.IntN(3*maxSize)) * mem.Offset(mem.Grain)
		}
		end := at + mem.Offset(1+rng.IntN(maxSize))*mem.Offset(mem.Grain)
		until := mem.Tick(2 * ticks)
		if rng.IntN(2) == 0 {
			until = mem.Tick(rng.IntN(ticks + 2))
		}
		fixed = append(fixed, Fixed{at, end, until})
		at = end
	}
	rng.Shuffle(n, func(i, j int) { fixed[i], fixed[j] = fixed[j], fixed[i] })
	return fixed
}

// withFixed adds what is fixed to a problem and its solution.
func withFixed(b []Buffer, fixed []Fixed, s Solution) (all []Buffer, offsets []mem.Offset) {
	all, offsets = slices.Clone(b), slices.Clone(s.Offsets)
	for _, f := range fixed {
		all = append(all, Buffer{-1, max(f.Until, -1), mem.Bytes(f.To - f.From)})
		offsets = append(offsets, f.From)
	}
	return all, offsets
}

// TestAround: nothing overlaps what is fixed, and nothing ends above the makespan.
func TestAround(t *testing.T) {
	rng := newRand(t)
	met := 0
	for round := range 400 {
		n, ticks := 1+rng.IntN(1+round/2), 2+rng.IntN(60)
		b := randomBuffers(rng, n, ticks, 40)
		if round%3 == 0 {
			b = append(b, Buffer{}, Buffer{3, 3, 512}, Buffer{1, 2, 0})
		}
		fixed := randomFixed(rng, rng.IntN(90), ticks, 30)
		goal := mem.Bytes(0)
		if round%2 == 0 {
			goal = mem.Bytes(rng.IntN(3000)) * mem.Grain
		}
		s := Around(b, fixed, goal)
		all, offsets := withFixed(b, fixed, s)
		if overlapNaively(all, offsets) {
			t.Fatalf("round %d: buffers overlap", round)
		}
		for i, x := range b {
			if !x.Empty() && (s.Offsets[i] < 0 || mem.Bytes(s.Offsets[i])+x.Size > s.Makespan) {
				t.Fatalf("round %d: buffer %d at %d ends above the makespan", round, i,
					s.Offsets[i])
			}
		}
		if again := Around(b, fixed, goal); !slices.Equal(again.Offsets, s.Offsets) {
			t.Fatalf("round %d: another result for the same problem", round)
		}
		if s.Makespan <= goal {
			met++
		}
	}
	if met < 50 {
		t.Errorf("only %d results as good as wanted", met)
	}
}

// TestAroundFillsGaps: what fits between fixed blocks does not lie behind them, what is fixed
// for a time is built upon, and a block high above the others does not waste what is below.
func TestAroundFillsGaps(t *testing.T) {
	g := func(n int64) mem.Offset { return mem.Offset(n) * mem.Offset(mem.Grain) }
	size := func(n int64) mem.Bytes { return mem.Bytes(n) * mem.Grain }
	for _, c := range []struct {
		name  string
		b     []Buffer
		fixed []Fixed
		top   mem.Bytes
	}{
		{"two gaps", []Buffer{{0, 4, size(3)}, {1, 5, size(2)}, {2, 6, size(1)}},
			[]Fixed{{g(3), g(5), 9}, {g(7), g(9), 9}}, size(10)},
		{"a floor", []Buffer{{0, 4, size(3)}, {4, 8, size(5)}}, []Fixed{{g(0), g(2), 4}}, size(5)},
		{"a wall", []Buffer{{0, 4, size(3)}, {4, 8, size(3)}}, []Fixed{{g(50), g(51), 4}}, size(3)},
		{"nothing fixed", []Buffer{{0, 4, size(3)}, {4, 8, size(5)}}, nil, size(5)},
		{"over before it begins", []Buffer{{5, 9, size(3)}}, []Fixed{{g(0), g(2), 5}}, size(3)},
		{"no buffer", nil, []Fixed{{g(0), g(2), 5}}, 0},
	} {
		if s := Around(c.b, c.fixed, 0); s.Makespan != c.top {
			t.Errorf("%s: makespan %d, expected %d; offsets %v", c.name, s.Makespan, c.top,
				s.Offsets)
		}
	}
}

// TestTrainingGraphs: the published graphs are placed as low as can be, and so is what has
// only one way to lie.
func TestTrainingGraphs(t *testing.T) {
	for name, b := range instances(t) {
		s := Around(b, nil, 0)
		if all, offsets := withFixed(b, nil, s); s.Makespan != LowerBound(b) ||
			overlapNaively(all, offsets) {
			t.Errorf("%s: makespan %d, peak load %d", name, s.Makespan, LowerBound(b))
		}
	}
	for name, b := range map[string][]Buffer{
		"none":         nil,
		"empty life":   {{3, 3, 512}, {5, 2, 512}},
		"no size":      {{0, 9, 0}},
		"one":          {{-5, 9, 512}},
		"in a row":     {{0, 1, 512}, {1, 2, 1024}, {2, 3, 512}},
		"all together": {{0, 4, 512}, {0, 4, 1024}, {0, 4, 512}},
		"nested":       {{0, 9, 512}, {1, 8, 512}, {2, 7, 512}, {3, 6, 512}},
		"far apart":    {{-1 << 60, -1<<60 + 1, 512}, {1 << 60, 1<<60 + 1, 512}},
		"not aligned":  {{0, 4, 7}, {2, 6, 3}, {4, 8, 7}},
	} {
		if s := Around(b, nil, 0); s.Makespan != LowerBound(b) || overlapNaively(b, s.Offsets) {
			t.Errorf("%s: makespan %d, peak load %d, offsets %v", name, s.Makespan, LowerBound(b),
				s.Offsets)
		}
	}
}

func BenchmarkAround(b *testing.B) {
	problems := instances(b)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Around(problems[name], nil, 0)
			}
			b.ReportMetric(float64(len(problems[name])), "buffers")
		})
	}
}

// TestManyEnds: what is fixed for a time is looked at once, however much of it there is. Looked at
// anew for each tick it would take minutes.
func TestManyEnds(t *testing.T) {
	const n = 1 << 18
	buffers, fixed := make([]Buffer, n), make([]Fixed, n)
	for i := range n {
		buffers[i] = Buffer{mem.Tick(2 * i), mem.Tick(2*i + 1), mem.Grain}
		at := mem.Offset(i) * mem.Offset(mem.Grain)
		fixed[i] = Fixed{at, at + mem.Offset(mem.Grain), mem.Tick(2*n - 4)}
	}
	began := time.Now()
	Around(buffers, fixed, 0)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%d ends took %v", n, took)
	}
}
