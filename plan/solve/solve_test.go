package solve

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"stalloc/internal/mem"
	"stalloc/plan/solve/problemfile"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomized tests; 0 takes a new one")

func newRand(t testing.TB) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func Example() {
	s, err := Solve(&Problem{Buffers: []Buffer{
		{Lower: 0, Upper: 4, Size: 2}, {Lower: 2, Upper: 6, Size: 1}, {Lower: 4, Upper: 8, Size: 2},
	}}, Options{})
	fmt.Println(s.Offsets, int64(s.Top), s.Optimal, err)
	// Output: [1 0 1] 3 true <nil>
}

// tiny returns a problem that can be solved by looking at everything.
func tiny(rng *rand.Rand) *Problem {
	p := &Problem{}
	for i := range 1 + rng.IntN(5) {
		lower := rng.IntN(6)
		b := Buffer{Lower: mem.Tick(lower), Upper: mem.Tick(lower + rng.IntN(5)),
			Size: mem.Bytes(rng.IntN(4))}
		p.Buffers = append(p.Buffers, b)
		if life := int(b.Upper - b.Lower); life > 1 && rng.IntN(4) == 0 {
			from := rng.IntN(life)
			g := Gap{Buffer: i, Lower: b.Lower + mem.Tick(from),
				Upper: b.Lower + mem.Tick(from+rng.IntN(life-from))}
			if rng.IntN(2) == 0 {
				g.To = mem.Bytes(rng.IntN(int(b.Size) + 1))
			}
			p.Gaps = append(p.Gaps, g)
		}
	}
	if rng.IntN(3) == 0 {
		for range p.Buffers {
			p.Align = append(p.Align, mem.Bytes(1+rng.IntN(3)))
		}
	}
	if i := rng.IntN(len(p.Buffers)); rng.IntN(4) == 0 {
		align := mem.Bytes(1)
		if p.Align != nil {
			align = p.Align[i]
		}
		p.Pins = append(p.Pins, Pin{Buffer: i, At: mem.Offset(align * mem.Bytes(rng.IntN(3)))})
	}
	return p
}

// least looks at every placement, and returns the lowest top.
func least(p *Problem) mem.Bytes {
	at := make([]mem.Offset, len(p.Buffers))
	for top := mem.Bytes(0); ; top++ {
		q := *p
		q.Capacity = max(top, 1)
		if placeAll(&q, at, 0) {
			return top
		}
	}
}

func placeAll(p *Problem, at []mem.Offset, i int) bool {
	if i == len(at) {
		return Check(p, at) == nil
	}
	if p.Buffers[i].Empty() {
		at[i] = 0
		for _, pin := range p.Pins {
			if pin.Buffer == i {
				at[i] = pin.At
			}
		}
		return placeAll(p, at, i+1)
	}
	for at[i] = 0; mem.Bytes(at[i])+p.Buffers[i].Size <= p.Capacity; at[i]++ {
		if placeAll(p, at, i+1) {
			return true
		}
	}
	return false
}

// TestEnds: a budget is spent also where a try costs next to nothing, and nothing better is found.
func TestEnds(t *testing.T) {
	for seed := range uint64(20000) {
		p := tiny(rand.New(rand.NewPCG(seed, 5)))
		p.Capacity = mem.Bytes(seed % 3)
		if s, err := Solve(p, Options{Solver: "search", Budget: 20_000, Seed: seed}); err == nil &&
			len(s.Offsets) != len(p.Buffers) {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

// TestAgainstExhaustive: no solver is wrong or lower than what there is, what is said to be
// proved is so, and the exact search proves what it can.
func TestAgainstExhaustive(t *testing.T) {
	rng := newRand(t)
	proved := 0
	for round := range 400 {
		p := tiny(rng)
		best := least(p)
		for _, capacity := range []mem.Bytes{0, best, best - 1} {
			if capacity < 0 || capacity == 0 && best <= 1 {
				continue
			}
			q := *p
			q.Capacity = capacity
			for _, name := range Solvers() {
				s, err := Solve(&q, Options{Solver: name, Budget: 20_000, Seed: uint64(round)})
				if err != nil {
					t.Fatalf("round %d, %s: %v", round, name, err)
				}
				all := q
				if !s.Fits {
					all.Capacity = 0
				}
				if err := Check(&all, s.Offsets); err != nil {
					t.Fatalf("round %d, %s: %v\n%+v", round, name, err, q)
				}
				whole := !slices.ContainsFunc(p.Buffers, Buffer.Empty) || best > 0
				switch {
				case whole && s.Top < best, s.Optimal && s.Top != best && s.Top > 0, s.Never &&
					capacity >= best && capacity > 0, s.Bound > max(best, s.Top):
					t.Fatalf("round %d, %s, capacity %d: %+v, the least is %d\n%+v", round, name,
						capacity, s, best, q)
				case capacity == best && capacity > 0 && name == "exact" && !s.Fits &&
					q.Gaps == nil:
					t.Fatalf("round %d: the exact search does not find %d: %+v\n%+v", round, best,
						s, q)
				case s.Optimal && name == "exact":
					proved++
				}
			}
		}
	}
	if proved < 400 {
		t.Errorf("only %d results of the exact search are proved", proved)
	}
}

func instances(t testing.TB, pattern string) map[string]*Problem {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no instances match %s: %v", pattern, err)
	}
	all := map[string]*Problem{}
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		file, err := problemfile.Read(f, path)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		all[strings.SplitN(filepath.Base(path), ".csv", 2)[0]] = &file.Problem
	}
	return all
}

const (
	hardOnes = "testdata/minimalloc/*.csv"
	graphs   = "../descent/testdata/idealloc/*.csv"
)

// TestInstances: the hard instances fit their capacity, and the training graphs are as low as
// can be. Budgets are in units, so that this is no matter of time.
func TestInstances(t *testing.T) {
	for name, p := range instances(t, hardOnes) {
		p.Capacity = 1 << 20
		s, err := Solve(p, Options{Budget: 200_000_000})
		if err != nil || !s.Fits || Check(p, s.Offsets) != nil {
			t.Errorf("%s: %v, it ends at %d", name, err, s.Top)
		}
	}
	for name, p := range instances(t, graphs) {
		s, err := Solve(p, Options{Budget: 1_000_000})
		if err != nil || !s.Optimal || Check(p, s.Offsets) != nil {
			t.Errorf("%s: %v, gap %f", name, err, s.Gap())
		}
	}
}

// TestRun: what is found does not depend on the slices that a solver is run in, and a solver that
// is told to stop does so within 10^6 units, with a placement.
func TestRun(t *testing.T) {
	all := instances(t, hardOnes)
	all["generated"] = generate(30_000, 1)
	for _, name := range []string{"A.1048576", "E.1048576", "generated"} {
		for _, solver := range Solvers() {
			const budget = 3_000_000
			whole, err := New(all[name], Options{Solver: solver, Seed: 3})
			if err != nil {
				t.Fatal(err)
			}
			want := whole.Run(budget)
			whole.Close()
			sliced, _ := New(all[name], Options{Solver: solver, Seed: 3})
			var got Solution
			for range budget / 100_000 {
				before := got.Units
				if got = sliced.Run(100_000); got.Units > before+1_000_000 {
					t.Errorf("%s, %s: %d units in one slice", name, solver, got.Units-before)
				}
				if err := Check(all[name], got.Offsets); err != nil {
					t.Fatalf("%s, %s: %v", name, solver, err)
				}
			}
			sliced.Close()
			if got.Top != want.Top || !slices.Equal(got.Offsets, want.Offsets) {
				t.Errorf("%s, %s: in slices it ends at %d, at once at %d", name, solver, got.Top,
					want.Top)
			}
		}
	}
}

// TestWarm: an older placement is where it begins, and one that is none does no harm.
func TestWarm(t *testing.T) {
	p := instances(t, hardOnes)["E.1048576"]
	p.Capacity = 1 << 20
	good, err := Solve(p, Options{})
	if err != nil || !good.Fits {
		t.Fatalf("%v: %+v", err, good)
	}
	again, err := Solve(p, Options{Warm: good.Offsets})
	if err != nil || again.Units != 0 || !slices.Equal(again.Offsets, good.Offsets) {
		t.Errorf("%v: %d units to find what was given", err, again.Units)
	}
	bad := make([]mem.Offset, len(p.Buffers))
	if s, err := Solve(p, Options{Warm: bad, Budget: 1000}); err != nil || s.Fits &&
		Check(p, s.Offsets) != nil {
		t.Errorf("an older placement that overlaps: %v, %+v", err, s)
	}
}

func TestRefuses(t *testing.T) {
	p := &Problem{Buffers: []Buffer{{Lower: 0, Upper: 2, Size: 4}, {Lower: 1, Upper: 3, Size: 4}}}
	pinned := *p
	pinned.Pins = []Pin{{Buffer: 0, At: 0}, {Buffer: 1, At: 2}}
	for want, try := range map[string]func() error{
		"choose from search": func() error {
			_,
				err := Solve(p, Options{Solver: "magic"})
			return err
		},
		"one each": func() error {
			_,
				err := Solve(p, Options{Warm: []mem.Offset{1}})
			return err
		},
		"overlap": func() error { _, err := Solve(&pinned, Options{}); return err },
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	for _, solver := range Solvers() {
		if s, err := Solve(&Problem{}, Options{Solver: solver}); err != nil || !s.Optimal ||
			len(s.Offsets) != 0 {
			t.Errorf("%s: no buffer: %v, %+v", solver, err, s)
		}
	}
}
