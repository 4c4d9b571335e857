package plan

import (
	"reflect"
	"testing"

	"stalloc/internal/mem"
)

// optimum returns the smallest makespan there is, by trying first fit in every
// order: in the order of an optimal placement's offsets, first fit puts no
// buffer higher than that placement does.
func optimum(b []Buffer) mem.Bytes {
	best := mem.Bytes(1) << 60
	offsets := make([]mem.Offset, len(b))
	var placed []int
	used := make([]bool, len(b))
	var try func(top mem.Bytes)
	try = func(top mem.Bytes) {
		if top >= best {
			return
		}
		if len(placed) == len(b) {
			best = top
			return
		}
		for i := range b {
			if used[i] {
				continue
			}
			at := mem.Offset(0)
			for moved := true; moved; {
				moved = false
				for _, p := range placed {
					collides := b[p].Lower < b[i].Upper && b[i].Lower < b[p].Upper &&
						offsets[p] < at+mem.Offset(b[i].Size) && at < offsets[p]+mem.Offset(b[p].Size)
					if collides {
						at, moved = offsets[p]+mem.Offset(b[p].Size), true
					}
				}
			}
			used[i], offsets[i], placed = true, at, append(placed, i)
			try(max(top, mem.Bytes(at)+b[i].Size))
			used[i], placed = false, placed[:len(placed)-1]
		}
	}
	try(0)
	return best
}

// checkSolution fails unless s is a consistent, valid solution of b.
func checkSolution(t testing.TB, name string, b []Buffer, s Solution) {
	t.Helper()
	if err := Validate(b, s.Offsets, s.Makespan); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if s.LowerBound != LowerBound(b) || s.Makespan < s.LowerBound {
		t.Fatalf("%s: lower bound %d, peak load %d, makespan %d", name, s.LowerBound, LowerBound(b), s.Makespan)
	}
}

// TestSolveTiny compares with the optimum, sizes swept upward so that the first
// failure is small.
func TestSolveTiny(t *testing.T) {
	rng := newRand(t)
	found, all := 0, 0
	for n := 1; n <= 7; n++ {
		for range 150 {
			b := randomBuffers(rng, n, 3+n, 5)
			s := Solve(b, Options{Descents: 200})
			checkSolution(t, "tiny", b, s)
			best := optimum(b)
			if s.LowerBound > best || best > s.Makespan {
				t.Fatalf("bound %d, optimum %d, makespan %d of %v", s.LowerBound, best, s.Makespan, b)
			}
			all++
			if s.Makespan == best {
				found++
			}
		}
	}
	t.Logf("optimal in %d of %d", found, all)
	if found*100 < all*99 {
		t.Errorf("optimal in only %d of %d tiny problems", found, all)
	}
}

func TestSolveRandom(t *testing.T) {
	rng := newRand(t)
	for n := 1; n < 600; n += 1 + n/5 {
		for _, ticks := range []int{2, n, 10 * n} {
			b := randomBuffers(rng, n, ticks, 1000)
			checkSolution(t, "random", b, Solve(b, Options{Descents: 40, Seed: rng.Uint64()}))
		}
	}
}

func TestSolveDegenerate(t *testing.T) {
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
		s := Solve(b, Options{})
		checkSolution(t, name, b, s)
		if s.Makespan != s.LowerBound {
			t.Errorf("%s: makespan %d, lower bound %d", name, s.Makespan, s.LowerBound)
		}
	}
}

func TestSolveIsDeterministic(t *testing.T) {
	b := instances(t, "minimalloc")["C.1048576"]
	o := Options{Descents: 300, Seed: 7}
	if first, second := Solve(b, o), Solve(b, o); !reflect.DeepEqual(first, second) {
		t.Error("two runs with one seed differ")
	}
}

// TestSolveTrainingGraphs: the published graphs are solved exactly, within the
// default budget.
func TestSolveTrainingGraphs(t *testing.T) {
	for name, b := range instances(t, "idealloc") {
		s := Solve(b, Options{})
		checkSolution(t, name, b, s)
		t.Logf("%s: %d buffers, gap %.4f %%, %d descents, %s", name, len(b), 100*s.Gap(), s.Descents, s.Order)
		if s.Makespan != s.LowerBound {
			t.Errorf("%s: gap %.4f %%, expected none", name, 100*s.Gap())
		}
	}
}

// TestWarmStart: the weights of a solution solve the same problem at once, and
// a descendant of it nearly so.
func TestWarmStart(t *testing.T) {
	b := instances(t, "idealloc")["pangu_2.6B"]
	cold := Solve(b, Options{})
	warm := Solve(b, Options{Warm: &cold.Weights, Descents: 1})
	checkSolution(t, "warm", b, warm)
	if cold.Descents < 3 {
		t.Fatalf("the instance is too easy to tell: %d descents", cold.Descents)
	}
	if warm.Makespan > cold.Makespan || warm.Descents != 1 {
		t.Errorf("cold %d in %d descents, warm %d in %d", cold.Makespan, cold.Descents, warm.Makespan, warm.Descents)
	}
}

// FuzzSolve reads a problem of up to seven buffers from three bytes each, and
// holds the solution against the optimum.
func FuzzSolve(f *testing.F) {
	f.Add([]byte{0, 4, 2, 2, 4, 1, 4, 4, 2})
	f.Add([]byte{0, 1, 1, 0, 9, 1, 3, 3, 3, 5, 1, 7})
	f.Add([]byte{1, 0, 1, 2, 2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var b []Buffer
		for ; len(data) >= 3 && len(b) < 7; data = data[3:] {
			b = append(b, Buffer{mem.Tick(data[0]), mem.Tick(data[0]) + mem.Tick(data[1]) - 3, mem.Bytes(data[2])})
		}
		s := Solve(b, Options{Descents: 60})
		checkSolution(t, "fuzz", b, s)
		var live []Buffer
		for _, x := range b {
			if !x.empty() {
				live = append(live, x)
			}
		}
		best := mem.Bytes(0)
		if len(live) > 0 {
			best = optimum(live)
		}
		if s.LowerBound > best || best > s.Makespan {
			t.Fatalf("bound %d, optimum %d, makespan %d", s.LowerBound, best, s.Makespan)
		}
	})
}
