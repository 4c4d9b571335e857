package paper

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/trace"
)

// experts is a program of layers that ask for the same in every step, and, inside each, for as many
// blocks of other sizes as the routing says.
func experts(steps int) *trace.Trace {
	p := &program{tr: trace.Trace{Name: "experts"}}
	r := rand.New(rand.NewPCG(1, 2))
	p.alloc(64 << 20)
	for step := range steps {
		p.mark(fmt.Sprint("step ", step))
		var kept [][]int64
		for layer := range 10 {
			var of []int64
			for i := range 30 { // attention
				b := p.alloc(mem.Bytes(1+(i*7+layer)%11) << 18)
				if i%3 == 0 {
					of = append(of, b)
				} else {
					p.free(b)
				}
			}
			for range 4 + r.IntN(3) { // experts
				b := p.alloc(mem.Bytes(1+r.IntN(5)) << 19) // some are the same by chance
				if r.IntN(2) == 0 {
					of = append(of, b)
				} else {
					p.free(b)
				}
			}
			kept = append(kept, of)
		}
		for layer := len(kept) - 1; layer >= 0; layer-- {
			for i := range 30 {
				p.free(p.alloc(mem.Bytes(1+(i*5+layer)%13) << 18))
			}
			p.free(kept[layer]...)
		}
		p.free(p.alloc(256 << 20)) // the optimizer: what experts may use while it is idle
	}
	p.mark("end")
	return &p.tr
}

// TestExperts: the stretches that differ are told, what is around them has its places in every
// step, and the region's idle bytes serve what is inside.
func TestExperts(t *testing.T) {
	tr := experts(6)
	profile, err := Read(tr, false)
	if err != nil {
		t.Fatal(err)
	}
	if profile.modules == nil {
		t.Fatal("no modules are told")
	}
	inside := 0
	for _, m := range profile.modules {
		if m != outside {
			inside++
		}
	}
	if inside < 6*10*2 || inside > 6*10*7 {
		t.Errorf("%d requests are told to be experts', expected 20 to 60 a step", inside)
	}
	plan := profile.Plan()
	if plan == nil || plan.modules == nil || plan.idle[1] == nil {
		t.Fatal("the plan that is kept does not use idle intervals")
	}
	a := newAllocator(t, baseline.Options{}, plan)
	_, misses := run(t, tr, a)
	for step, n := range misses {
		if n > 0 {
			t.Errorf("%d static requests of step %d miss: an expert's block is in their way", n,
				step)
		}
	}
	apart := *plan
	apart.idle = [2]map[int32]idle{}
	b := newAllocator(t, baseline.Options{}, &apart)
	run(t, tr, b)
	if got, without := a.Stats().PeakReserved, b.Stats().PeakReserved; got >= without {
		t.Errorf("%v are reserved, %v without idle intervals", got, without)
	}
}

// TestAlign: runs that two sequences share are found again behind stretches that differ.
func TestAlign(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var a, b []mem.Bytes
	shared := 0
	for range 12 {
		for i := range 40 {
			a, b = append(a, mem.Bytes(i)), append(b, mem.Bytes(i))
			shared++
		}
		for range 5 + r.IntN(200) {
			a = append(a, mem.Bytes(1000+r.IntN(100)))
		}
		for range 5 + r.IntN(200) {
			b = append(b, mem.Bytes(2000+r.IntN(100)))
		}
	}
	match, zones := align(a, b)
	last, n := -1, 0
	for j, m := range match {
		if m == noneMatches {
			continue
		}
		if n++; m <= last || a[m] != b[j] {
			t.Fatalf("place %d of %v matches %d, after %d", j, b[j], m, last)
		}
		last = m
	}
	if n != shared || zones != 12 {
		t.Errorf("%d of %d match, in %d zones of 12", n, shared, zones)
	}
}
