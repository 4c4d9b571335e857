package plan

import (
	"testing"

	"stalloc/internal/mem"
)

// TestValidateAgainstPairs holds the sweep against the check of every pair, on
// placements that are now valid, now not.
func TestValidateAgainstPairs(t *testing.T) {
	rng := newRand(t)
	verdicts := map[bool]int{}
	for round := range 20_000 {
		b := randomBuffers(rng, 1+rng.IntN(6), 8, 4)
		offsets := make([]mem.Offset, len(b))
		for i := range offsets {
			offsets[i] = mem.Offset(rng.IntN(20)) * 512
		}
		err := Validate(b, offsets, 1<<20)
		want := overlapNaively(b, offsets)
		if (err != nil) != want {
			t.Fatalf("round %d: Validate says %v, pairs overlap: %v\n%v\n%v", round, err, want, b, offsets)
		}
		verdicts[want]++
	}
	if verdicts[true] < 1000 || verdicts[false] < 1000 {
		t.Errorf("the rounds tell little: %v", verdicts)
	}
}

// TestValidateMutations damages valid placements: every overlap made is caught.
func TestValidateMutations(t *testing.T) {
	rng := newRand(t)
	caught := 0
	for range 300 {
		b := randomBuffers(rng, 2+rng.IntN(40), 30, 30)
		s := Solve(b, Options{Descents: 5})
		if err := Validate(b, s.Offsets, s.Makespan); err != nil {
			t.Fatal(err)
		}
		if err := Validate(b, s.Offsets, s.Makespan-1); err == nil {
			t.Fatal("a capacity under the makespan is accepted")
		}
		i, j := rng.IntN(len(b)), rng.IntN(len(b))
		if i == j || b[i].Lower >= b[j].Upper || b[j].Lower >= b[i].Upper {
			continue
		}
		s.Offsets[i] = s.Offsets[j] + mem.Offset(b[j].Size) - 1
		if rng.IntN(2) == 0 {
			s.Offsets[i] = s.Offsets[j]
		}
		if err := Validate(b, s.Offsets, 1<<40); err == nil {
			t.Fatalf("buffers %d and %d overlap and Validate accepts it", i, j)
		}
		caught++
	}
	if caught < 50 {
		t.Errorf("only %d overlaps were made", caught)
	}
}

func TestValidateRefuses(t *testing.T) {
	b := []Buffer{{0, 2, 512}, {1, 3, 512}}
	for name, bad := range map[string]struct {
		b       []Buffer
		offsets []mem.Offset
	}{
		"offset missing":  {b, []mem.Offset{0}},
		"negative offset": {b, []mem.Offset{-512, 512}},
		"outside":         {b, []mem.Offset{0, 1024}},
		"overflow":        {b, []mem.Offset{0, 1<<63 - 1}},
		"negative size":   {[]Buffer{{0, 2, -1}}, []mem.Offset{0}},
	} {
		if err := Validate(bad.b, bad.offsets, 1024); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := Validate(b, []mem.Offset{512, 0}, 1024); err != nil {
		t.Error(err)
	}
	if err := Validate([]Buffer{{0, 2, 512}, {2, 3, 512}, {5, 5, 512}, {6, 4, 512}}, make([]mem.Offset, 4), 512); err != nil {
		t.Errorf("lives that touch or are empty do not overlap: %v", err)
	}
}
