package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/descent"
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/dsa/dsatest"
)

// problem returns n buffers of a few sizes: short ones, and one in eight that lives long.
func problem(n int, seed uint64) *dsa.Problem {
	rng := rand.New(rand.NewPCG(seed, 9))
	sizes := []mem.Bytes{2, 3, 7, 16, 43, 48, 86, 96, 172, 256}
	p := &dsa.Problem{}
	for i := range n {
		life := 1 + rng.IntN(20)
		if i%8 == 0 {
			life = 1 + rng.IntN(n)
		}
		p.Buffers = append(p.Buffers, dsa.Buffer{Lower: mem.Tick(i), Upper: mem.Tick(i + life),
			Size: sizes[rng.IntN(len(sizes))]})
	}
	return p
}

// run solves in slices of so many units, until the budget is spent.
func run(in *dsa.Instance, goal, budget, slice int64, seed uint64, warm []int64) *dsa.Work {
	granted := int64(0)
	w := dsa.NewWork(goal, func() (int64, bool) {
		granted += slice
		return slice, granted <= budget
	})
	if warm != nil {
		w.Found(warm, in.Top(warm))
	}
	Run(in, w, 0, seed, warm)
	return w
}

// TestRun: one seed and budget have one result, in whatever slices; more budget is never worse;
// what is cancelled has a placement.
func TestRun(t *testing.T) {
	p := problem(3000, 1)
	in := dsa.Compress(p)
	const budget = 12_000_000
	whole := run(in, in.Bound, budget, budget, 1, nil)
	for _, slice := range []int64{budget / 7, 10_000} {
		if again := run(in, in.Bound, budget/slice*slice, slice, 1, nil); again.Top < whole.Top {
			t.Errorf("slices of %d: it ends at %d, at once at %d", slice, again.Top, whole.Top)
		} else if budget%slice == 0 && !slices.Equal(again.At, whole.At) {
			t.Errorf("slices of %d: another placement", slice)
		}
	}
	last := int64(1) << 62
	for _, part := range []int64{50_000, 500_000, 5_000_000, budget} {
		w := run(in, in.Bound, part, part, 1, nil)
		if w.Top > last || w.Top < in.Bound || w.Spent > part+1_000_000 ||
			dsa.Check(p, in.Offsets(p, w.At)) != nil {
			t.Errorf("%d units: it ends at %d, with less at %d; %d were spent", part, w.Top, last,
				w.Spent)
		}
		last = w.Top
	}
}

// TestFarBehind: an older placement that is far better than all that is found stays, and the search
// goes on working: it once went round without any work, and never came back.
func TestFarBehind(t *testing.T) {
	// Too large for the exact search, which would prove that there is no better.
	p, offsets := dsatest.CutUp(rand.New(rand.NewPCG(1, 8)), 5000, 1<<20)
	in := dsa.Compress(p)
	warm := make([]int64, len(in.IDs))
	for box, id := range in.IDs {
		warm[box] = int64(offsets[id])
	}
	const none, budget = 0, 30_000_000 // no goal is reached
	if w := run(in, none, budget, 1_000_000, 1, warm); w.Top != 1<<20 || w.Spent < budget {
		t.Errorf("%d units were spent, it ends at %d, before at %d", w.Spent, w.Top, 1<<20)
	}
}

func searching(in *dsa.Instance) *dsa.Work {
	return dsa.NewWork(in.Bound, func() (int64, bool) { return 1 << 40, true })
}

// TestEject: whatever is taken out is put back, at every success the placement is one, and lower.
func TestEject(t *testing.T) {
	p := problem(400, 2)
	in := dsa.Compress(p)
	w := searching(in)
	Descents(in, w, 0, 0, nil)
	begin := w.Top
	e := newEject(in, w, 1)
	for range 40 {
		before := w.Top
		e.climb(20_000)
		if err := dsa.Check(p, in.Offsets(p, w.At)); err != nil || w.Top > before {
			t.Fatalf("%v: it ends at %d, before at %d", err, w.Top, before)
		}
		placed := len(in.IDs) - len(e.wait)
		if len(e.low) != placed || len(e.high) != placed ||
			!slices.IsSortedFunc(e.low, edge.compare) ||
			!slices.IsSortedFunc(e.high, edge.compare) {
			t.Fatalf("%d are placed, lists of %d and %d", placed, len(e.low), len(e.high))
		}
	}
	if w.Top == begin {
		t.Errorf("it ends at %d as before", begin)
	}
}

// TestEjectSwaps: the box that ends highest fits nowhere, and only makes room for itself where a
// smaller one lies, which fits elsewhere.
func TestEjectSwaps(t *testing.T) {
	p := &dsa.Problem{Buffers: []dsa.Buffer{
		{Lower: 0, Upper: 9, Size: 3}, {Lower: 0, Upper: 9, Size: 1}, {Lower: 0, Upper: 9,
			Size: 4}, {Lower: 0, Upper: 1, Size: 2},
	}}
	in := dsa.Compress(p)
	w := searching(in)
	w.Found([]int64{0, 6, 7, 3}, 11)
	newEject(in, w, 1).climb(1 << 16)
	if w.Top != 10 || dsa.Check(p, in.Offsets(p, w.At)) != nil {
		t.Errorf("it ends at %d, expected 10: %v", w.Top, w.At)
	}
}

// TestWindow: a window has what lives in it, and a descent there ends as high as one of just that;
// one over all time ends where a whole descent does.
func TestWindow(t *testing.T) {
	for _, n := range []int{windowBoxes / 2, 3 * windowBoxes} {
		p := problem(n, 3)
		in := dsa.Compress(p)
		d := newDescents(in, searching(in))
		longest, shortest := descent.Weights{descent.ByDuration: 1},
			descent.Weights{descent.ByDuration: -1}
		v := &windows{d: d}
		v.open(in.Lo[n/2], longest)
		x := v.all[0]
		part := &dsa.Problem{}
		for box := range in.IDs {
			if in.Lo[box] < x.to && x.from < in.Hi[box] {
				part.Buffers = append(part.Buffers,
					dsa.Buffer{Lower: mem.Tick(max(in.Lo[box], x.from)),
						Upper: mem.Tick(min(in.Hi[box], x.to)), Size: mem.Bytes(in.Size[box])})
			}
		}
		if len(x.boxes.IDs) != len(part.Buffers) ||
			v.high < int64(descent.LowerBound(part.Buffers)) {
			t.Errorf("a window of %d boxes that ends at %d, expected %d and the load at least",
				len(x.boxes.IDs), v.high, len(part.Buffers))
		}
		d.try(longest)
		if whole := in.Top(d.at); n < windowBoxes && v.high != whole {
			t.Errorf("the window over all time ends at %d, a descent at %d", v.high, whole)
		}
		if !v.pass(longest) {
			t.Error("the best weights do not pass their own windows")
		}
		if v.pass(shortest) {
			t.Error("shortest first passes where longest first is the best")
		}
	}
}
