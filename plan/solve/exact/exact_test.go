package exact

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
	"stalloc/plan/solve/dsa/dsatest"
)

func unlimited() *dsa.Work {
	return dsa.NewWork(0, func() (int64, bool) { return 1 << 40, true })
}

// tiny returns a problem that can be solved by looking at everything: plain, aligned, or with
// buffers that are gone for a while.
func tiny(rng *rand.Rand, kind int) *dsa.Problem {
	p := &dsa.Problem{}
	for i := range 2 + rng.IntN(4) {
		lower := rng.IntN(7)
		b := dsa.Buffer{Lower: mem.Tick(lower), Upper: mem.Tick(lower + 1 + rng.IntN(5)),
			Size: mem.Bytes(1 + rng.IntN(4))}
		p.Buffers = append(p.Buffers, b)
		switch {
		case kind == 1:
			p.Align = append(p.Align, mem.Bytes(1+rng.IntN(3)))
		case kind == 2 && b.Upper-b.Lower > 2:
			p.Gaps = append(p.Gaps, dsa.Gap{Buffer: i, Lower: b.Lower + 1, Upper: b.Upper - 1})
		}
	}
	return p
}

// least looks at every placement below one capacity after another.
func least(p *dsa.Problem) mem.Bytes {
	at := make([]mem.Offset, len(p.Buffers))
	var place func(i int) bool
	capacity := mem.Bytes(1)
	place = func(i int) bool {
		if i == len(at) {
			return dsa.Check(p, at) == nil
		}
		for at[i] = 0; mem.Bytes(at[i])+p.Buffers[i].Size <= capacity; at[i]++ {
			if place(i + 1) {
				return true
			}
		}
		return false
	}
	for ; !place(0); capacity++ {
	}
	return capacity
}

// TestEveryOrderAgrees: with each order a search finds what looking at everything finds, and proves
// that there is nothing lower. It proves nothing where parts of a buffer stay in a gap.
func TestEveryOrderAgrees(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for round := range 600 {
		p := tiny(rng, round%3)
		want := least(p)
		in := dsa.Compress(p)
		s := New(in)
		for _, order := range orders {
			at, solved := s.Fits(int64(want), order, 1<<20, unlimited())
			if !solved || at == nil || in.Top(at) > int64(want) ||
				dsa.Check(p, in.Offsets(p, at)) != nil {
				t.Fatalf("round %d, order %v: %v, %v, expected a placement below %d\n%+v", round,
					order, at, solved, int64(want), p)
			}
			if at, solved := s.Fits(int64(want)-1, order, 1<<20, unlimited()); at != nil ||
				solved != s.whole {
				t.Fatalf("round %d, order %v: %v, %v, expected none below %d\n%+v", round, order,
					at, solved, int64(want), p)
			}
		}
		w := unlimited()
		w.Found(stack(in), in.Top(stack(in)))
		if Least(s, w, 1, 40); w.Top != int64(want) || s.whole && !w.Least {
			t.Fatalf("round %d: the least is %d, proved %v, expected %d\n%+v", round, w.Top,
				w.Least, int64(want), p)
		}
	}
}

// stack lays all boxes above each other.
func stack(in *dsa.Instance) []int64 {
	at, top := make([]int64, len(in.IDs)), int64(0)
	for box := range at {
		at[box] = in.Fits(int32(box), top)
		top = at[box] + in.Size[box]
	}
	return at
}

// TestGivesUp: a search ends when its nodes or the work are used up, says that it knows nothing,
// and can be asked again.
func TestGivesUp(t *testing.T) {
	p, _ := dsatest.CutUp(rand.New(rand.NewPCG(3, 1)), 60, 1<<10)
	in := dsa.Compress(p)
	s := New(in)
	if at, solved := s.Fits(in.Bound, orders[0], 3, unlimited()); at != nil || solved {
		t.Errorf("three nodes for %d boxes: %v, %v", len(in.IDs), at, solved)
	}
	stopped := dsa.NewWork(0, func() (int64, bool) { return 0, false })
	if at, solved := s.Race(in.Bound, 1, stopped); at != nil || solved || stopped.Spent > 1000 {
		t.Errorf("no work: %v, %v, %d units", at, solved, stopped.Spent)
	}
	w := dsa.NewWork(0, func() (int64, bool) { return 1 << 20, true })
	if at, solved := s.Race(in.Bound, 1, w); !solved || at == nil || in.Top(at) != in.Bound {
		t.Errorf("%v, %v after giving up: expected a placement that ends at %d", at, solved,
			in.Bound)
	}
}
