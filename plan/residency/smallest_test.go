package residency

import (
	"testing"

	"stalloc/internal/mem"
)

// TestSmallest: the doc's example needs 6 with everything on the device. With both away it needs 3,
// since the load is 3, and waits for nothing.
func TestSmallest(t *testing.T) {
	p := example()
	if a, err := Smallest(p); err != nil || a != (Answer{Whole: 6, Free: 3, Least: 3}) {
		t.Errorf("%+v, %v", a, err)
	}
	// On half the link, with all sizes doubled: at 2 the load is 10 and A, 4 units on its way, is
	// not out yet, so below 10 the program waits. B alone, away over [3, 5), keeps 10. With 6, A
	// has to be out before B is idle: at 4, not at 1. And it has room again when B is needed, at 7,
	// but takes until 3 after it is needed.
	p.Link = Link{1, 1}
	for i := range p.Items {
		p.Items[i].Size *= 2
	}
	for i := range p.Load {
		p.Load[i].Bytes *= 2
	}
	a, err := Smallest(p)
	if err != nil {
		t.Fatal(err)
	}
	if a != (Answer{Whole: 12, Free: 10, Least: 6, Extra: 6 * unit}) {
		t.Errorf("%+v", a)
	}
	p.Limit = a.Least
	if plan, _ := Solve(p); plan.Wait != a.Extra || !plan.Fits() {
		t.Errorf("%+v, and a plan %+v", a, plan)
	}
	p.Limit--
	if plan, _ := Solve(p); plan.Over != 1 {
		t.Errorf("a byte less fits: %+v", plan)
	}
	if _, err := Smallest(&Problem{}); err == nil {
		t.Error("a problem without a handle has an answer")
	}
}

// TestSmallestIsKept: at Free nothing waits, at Least it fits, a byte below it does not.
func TestSmallestIsKept(t *testing.T) {
	rng := newRand(t)
	costs := 0
	for round := range 500 {
		p := randomProblem(rng, 1+rng.IntN(1+round/25), 3+rng.IntN(20))
		a, err := Smallest(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			limit, over int
			wait        Nanos
		}{{int(a.Whole), 0, 0}, {int(a.Free), 0, 0}, {int(a.Least), 0, a.Extra},
			{int(a.Least) - 1, 1, 0}} {
			p.Limit = mem.Bytes(c.limit)
			plan, _ := Solve(p)
			if plan.Over != mem.Bytes(c.over) || plan.Wait != c.wait {
				t.Fatalf("round %d: %+v, at %d: %+v", round, a, c.limit, plan)
			}
		}
		if a.Extra > 0 {
			costs++
		}
	}
	if costs < 50 {
		t.Errorf("only %d of the least limits cost anything", costs)
	}
}
