package descent

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// randomGaps returns gaps of all sizes, in order.
func randomGaps(rng *rand.Rand, n, maxSize int) (gaps []Gap) {
	at := mem.Offset(0)
	for range n {
		size := mem.Bytes(1+rng.IntN(3*maxSize)) * mem.Grain
		gaps = append(gaps, Gap{at, size})
		at += mem.Offset(size) + mem.Offset(1+rng.IntN(maxSize))*mem.Offset(mem.Grain)
	}
	return gaps
}

// TestPlace: nothing overlaps, all lies in gaps, and nothing ends above the makespan.
func TestPlace(t *testing.T) {
	rng := newRand(t)
	met := 0
	for round := range 400 {
		n, ticks := 1+rng.IntN(1+round/2), 2+rng.IntN(60)
		b := randomBuffers(rng, n, ticks, 40)
		if round%3 == 0 {
			b = append(b, Buffer{}, Buffer{3, 3, 512}, Buffer{1, 2, 0})
		}
		gaps := randomGaps(rng, rng.IntN(90), 30)
		goal := mem.Bytes(0)
		if round%2 == 0 {
			goal = mem.Bytes(rng.IntN(3000)) * mem.Grain
		}
		s := Place(b, gaps, goal)
		if overlapNaively(b, s.Offsets) {
			t.Fatalf("round %d: buffers overlap", round)
		}
		for i, x := range b {
			if x.Empty() {
				continue
			}
			in := len(gaps) == 0
			for k, g := range gaps {
				in = in || s.Offsets[i] >= g.From && (k == len(gaps)-1 ||
					s.Offsets[i]+mem.Offset(x.Size) <= g.From+mem.Offset(g.Size))
			}
			if !in || s.Offsets[i] < 0 || mem.Bytes(s.Offsets[i])+x.Size > s.Makespan {
				t.Fatalf("round %d: buffer %d of %d at %d, of a makespan of %d, gaps %v", round, i,
					x.Size, s.Offsets[i], s.Makespan, gaps)
			}
		}
		if again := Place(b, gaps, goal); !slices.Equal(again.Offsets, s.Offsets) {
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

// TestPlaceFillsGaps: what fits in a gap does not lie behind it.
func TestPlaceFillsGaps(t *testing.T) {
	g := func(from, size int64) Gap {
		return Gap{mem.Offset(from) * mem.Offset(mem.Grain), mem.Bytes(size) * mem.Grain}
	}
	size := func(n int64) mem.Bytes { return mem.Bytes(n) * mem.Grain }
	for _, c := range []struct {
		name string
		b    []Buffer
		gaps []Gap
		top  mem.Bytes
	}{
		{"two gaps", []Buffer{{0, 4, size(3)}, {1, 5, size(2)}, {2, 6, size(1)}},
			[]Gap{g(0, 3), g(5, 2), g(9, 1)}, size(10)},
		{"the last has no end", []Buffer{{0, 4, size(3)}}, []Gap{g(0, 2), g(5, 1)}, size(8)},
		{"one gap", []Buffer{{0, 4, size(3)}, {4, 8, size(5)}}, nil, size(5)},
		{"no buffer", nil, []Gap{g(2, 5)}, 0},
	} {
		if s := Place(c.b, c.gaps, 0); s.Makespan != c.top {
			t.Errorf("%s: makespan %d, expected %d; offsets %v", c.name, s.Makespan, c.top,
				s.Offsets)
		}
	}
}

// TestTrainingGraphs: the published graphs are placed as low as can be, and so is what has
// only one way to lie.
func TestTrainingGraphs(t *testing.T) {
	for name, b := range instances(t) {
		s := Place(b, nil, 0)
		if s.Makespan != LowerBound(b) || overlapNaively(b, s.Offsets) {
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
		if s := Place(b, nil, 0); s.Makespan != LowerBound(b) || overlapNaively(b, s.Offsets) {
			t.Errorf("%s: makespan %d, peak load %d, offsets %v", name, s.Makespan, LowerBound(b),
				s.Offsets)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	problems := instances(b)
	for _, name := range slices.Sorted(maps.Keys(problems)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Place(problems[name], nil, 0)
			}
			b.ReportMetric(float64(len(problems[name])), "buffers")
		})
	}
}
