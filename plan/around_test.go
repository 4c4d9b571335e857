package plan

import (
	"math/rand/v2"
	"slices"
	"testing"

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
func withFixed(b []Buffer, fixed []Fixed, s Solution) (all []Buffer, offsets []mem.Offset, top mem.Bytes) {
	all, offsets, top = slices.Clone(b), slices.Clone(s.Offsets), s.Makespan
	for _, f := range fixed {
		all = append(all, Buffer{-1, max(f.Until, -1), mem.Bytes(f.To - f.From)})
		offsets = append(offsets, f.From)
		top = max(top, mem.Bytes(f.To))
	}
	return all, offsets, top
}

// TestSolveAround: nothing overlaps what is fixed, nothing ends above the makespan, and a
// makespan under the goal or at the lower bound ends the search.
func TestSolveAround(t *testing.T) {
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
		o := Options{Descents: rng.IntN(12)}
		s := SolveAround(b, fixed, goal, o)
		all, offsets, top := withFixed(b, fixed, s)
		if err := Validate(all, offsets, top); err != nil || overlapNaively(all, offsets) {
			t.Fatalf("round %d: %v", round, err)
		}
		if s.Makespan < s.LowerBound {
			t.Fatalf("round %d: makespan %d under the lower bound %d", round, s.Makespan, s.LowerBound)
		}
		for i, x := range b {
			if !x.empty() && mem.Bytes(s.Offsets[i])+x.Size > s.Makespan {
				t.Fatalf("round %d: buffer %d ends above the makespan", round, i)
			}
		}
		if o.Descents > 0 && s.Descents > o.Descents {
			t.Fatalf("round %d: %d descents, %d allowed", round, s.Descents, o.Descents)
		}
		if again := SolveAround(b, fixed, goal, o); !slices.Equal(again.Offsets, s.Offsets) {
			t.Fatalf("round %d: another result for the same problem", round)
		}
		if s.Makespan <= max(goal, s.LowerBound) {
			met++
		}
	}
	if met < 50 {
		t.Errorf("only %d results as good as wanted", met)
	}
}

// TestSolveAroundFillsGaps: what fits between fixed blocks does not lie behind them, what is fixed
// for a time is built upon, and a block high above the others does not waste what is below.
func TestSolveAroundFillsGaps(t *testing.T) {
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
		if s := SolveAround(c.b, c.fixed, 0, Options{}); s.Makespan != c.top {
			t.Errorf("%s: makespan %d, expected %d; offsets %v", c.name, s.Makespan, c.top, s.Offsets)
		}
	}
}
