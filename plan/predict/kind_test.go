package predict

import (
	"testing"

	"stalloc/internal/mem"
)

// TestLikeliest: kinds that begin alike are told apart by their features, and where these
// say nothing by what usually comes next.
func TestLikeliest(t *testing.T) {
	step := func(l *Learner, n int, feature, size mem.Bytes) int {
		m := matched(feed(l, shaped(feature*mem.MiB, 2*mem.MiB, func(int) mem.Bytes { return size * mem.MiB })[:n]...))
		l.Boundary()
		return m
	}
	l := New()
	for i := range mem.Bytes(4) {
		step(l, 100, 100+i, 50)
		step(l, 100, 110+i, 50)
		step(l, 60, 10+i, 20)
	}
	step(l, 100, 107, 50)
	step(l, 100, 108, 50)
	step(l, 100, 109, 50) // its third in a row: what comes next is likely another of them
	if n := step(l, 60, 15, 20); n != 60-features {
		t.Errorf("%d of %d requests came as foreseen", n, 60-features)
	}
	l = New()
	for i := range mem.Bytes(6) {
		long, short := step(l, 100, 100+2*i, 50), step(l, 60, 101+2*i, 60)
		if i >= 3 && (long != 100-features || short != 60-features) {
			t.Errorf("in turns: %d of %d and %d of %d requests came as foreseen", long, 100-features, short, 60-features)
		}
	}
}

// TestNoisyKinds: what comes once does not push out what comes again, but a kind that does not
// come any more makes room.
func TestNoisyKinds(t *testing.T) {
	l := New()
	step := func(n int) int {
		m := matched(feed(l, shaped(4*mem.MiB, 5*mem.MiB, func(int) mem.Bytes { return 6 * mem.MiB })[:n]...))
		l.Boundary()
		return m
	}
	step(requests)
	step(requests)
	for n := range 2 * maxKinds {
		step(70 + n)
	}
	l.off = 0
	if n := step(requests); n != requests-features {
		t.Errorf("behind noise %d of %d requests came as foreseen", n, requests-features)
	}
	for n := range maxKinds {
		step(20 + n)
		step(20 + n)
	}
	l.off = 0
	for range stale/2 + 2 {
		step(99)
		step(98)
	}
	if n := step(99); n != 99-features {
		t.Errorf("two new kinds in turns among old ones: %d of %d requests came as foreseen", n, 99-features)
	}
}

// TestTaken: where nearly all bytes that were planned are in use the rest of the step is left
// alone, and after three such steps the next; after each other one twice as many.
func TestTaken(t *testing.T) {
	l := New()
	step := func(taken bool) (n int) {
		var live []Ref
		for i := range 300 {
			r, m := l.Alloc(mem.Bytes(2+i) * mem.MiB)
			live = append(live, r)
			if m.Forecast != 0 {
				n++
				if taken && i%16 > 0 {
					l.Taken()
				}
			}
		}
		for _, r := range live {
			l.Done(r)
		}
		l.Boundary()
		return n
	}
	step(false)
	bad := func() {
		if n := step(true); n < 128 || n > 256 {
			t.Errorf("%d matches although most of the bytes were in use", n)
		}
	}
	for range mostBad - 1 {
		bad()
	}
	for _, off := range []int{1, 2, 4, 8, offSteps, offSteps} {
		bad()
		for range off {
			if n := step(false); n > 0 {
				t.Errorf("%d matches while nothing is to be forecast", n)
			}
		}
	}
	if n := step(false); n != 300-features {
		t.Errorf("%d of %d requests came as foreseen", n, 300-features)
	}
}

// TestLeaves: a block that two steps keep is not taken for one that the next step ends.
func TestLeaves(t *testing.T) {
	l := New()
	var kept [3]Ref
	for step := range 8 {
		feed(l, shaped(4*mem.MiB, 5*mem.MiB, func(int) mem.Bytes { return 6 * mem.MiB })...)
		if step > 2 {
			if l.follower.kind == noKind {
				t.Fatalf("step %d: no forecast", step)
			}
			if end := l.End(kept[(step-1)%3]); end != Never {
				t.Errorf("step %d: a block is expected to end at %d", step, end)
			}
			l.Done(kept[(step-2)%3])
		}
		kept[step%3], _ = l.Alloc(7 * mem.MiB)
		l.Boundary()
	}
}
