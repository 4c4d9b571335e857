package predict

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// feed requests blocks of these sizes and frees them in the opposite order, and returns
// the matches. Every eighth block lives for two requests only.
func feed(l *Learner, sizes ...mem.Bytes) []Match {
	var live []Ref
	matches := make([]Match, len(sizes))
	short := None
	for i, size := range sizes {
		var r Ref
		r, matches[i] = l.Alloc(size)
		if short != None {
			l.Done(short)
			short = None
		}
		if i%8 == 5 {
			short = r
		} else {
			live = append(live, r)
		}
	}
	l.Done(short)
	for i := len(live) - 1; i >= 0; i-- {
		l.Done(live[i])
	}
	return matches
}

// matched counts the matches.
func matched(matches []Match) (n int) {
	for _, m := range matches {
		if m.Forecast != 0 {
			n++
		}
	}
	return n
}

const requests = 100

// shaped returns a step's sizes: the features first, then what position makes of them.
func shaped(a, b mem.Bytes, position func(i int) mem.Bytes) []mem.Bytes {
	sizes := []mem.Bytes{a, b, a}
	for i := features; i < requests; i++ {
		sizes = append(sizes, position(i))
	}
	return sizes
}

// TestSizes: which sizes are derived, and from how many steps on.
func TestSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	vary := func() (a, b mem.Bytes) {
		return mem.Bytes(4000+rng.IntN(4000)) * 1000, mem.Bytes(2000+rng.IntN(2000)) * 1000
	}
	fixed := func() (a, b mem.Bytes) { return 8 * mem.MiB, 5 * mem.MiB }
	for _, c := range []struct {
		name     string
		features func() (a, b mem.Bytes)
		size     func(i int, a, b mem.Bytes) mem.Bytes
		steps    int // of the kind before the first whose sizes are known
		bound    bool
	}{
		{"constant", vary, func(i int, a, b mem.Bytes) mem.Bytes { return mem.Bytes(i) * mem.MiB }, 2, false},
		{"same features", fixed, func(i int, a, b mem.Bytes) mem.Bytes { return mem.Bytes(i) * mem.MiB }, 1, false},
		{"affine in one", vary, func(i int, a, b mem.Bytes) mem.Bytes { return a*mem.Bytes(i)/4 + 12345 }, 3, false},
		{"aligned to 16 bytes", vary, func(i int, a, b mem.Bytes) mem.Bytes { return (a*mem.Bytes(i)/7 + 15) &^ 15 }, 3, false},
		{"affine in the second", vary, func(i int, a, b mem.Bytes) mem.Bytes { return b * mem.Bytes(i) }, 3, false},
		{"affine in two", vary, func(i int, a, b mem.Bytes) mem.Bytes { return a*2 + b*mem.Bytes(i) + 4096 }, 4, false},
		{"padded to 128 rows", vary, func(i int, a, b mem.Bytes) mem.Bytes { return (a/500 + 127) / 128 * 128 * 4096 }, 4, true},
	} {
		l := New()
		for step := range 30 {
			a, b := c.features()
			if step == 0 { // a load larger than ever is not forecast, see TestFar
				a, b = max(a, 8_000_000), max(b, 4_000_000)
			}
			sizes := shaped(a, b, func(i int) mem.Bytes { return c.size(i, a, b) })
			matches := feed(l, sizes...)
			n := matched(matches)
			if step < c.steps && n > 0 || step >= max(c.steps, 8) && n < requests-features || !c.bound && step >= c.steps && n < requests-features {
				t.Errorf("%s: step %d: %d of %d requests came as foreseen", c.name, step, n, requests-features)
			}
			for i, m := range matches {
				if m.Forecast == 0 {
					continue
				}
				p := l.positions[m.Position]
				if size := mem.Round(sizes[i]); int(m.Position) != i || p.Bound != c.bound || p.Size < size || p.Size-size > mem.Grain && (!c.bound || p.Size > size+size/50) {
					t.Fatalf("%s: step %d: request %d of %v: %+v", c.name, step, i, size, p)
				}
			}
			l.Boundary()
		}
		if l.counts.Bad > 0 || l.counts.Kinds != 1 {
			t.Errorf("%s: %+v", c.name, l.counts)
		}
	}
}

// TestFar: a size further than a factor of two from those seen is not believed, nor is a
// forecast of much more load than ever.
func TestFar(t *testing.T) {
	l := New()
	grow := func(a mem.Bytes) []Match {
		m := feed(l, shaped(a, 2*mem.MiB, func(i int) mem.Bytes { return a * mem.Bytes(1+i%3) })...)
		l.Boundary()
		return m
	}
	for i := range mem.Bytes(4) {
		grow((40 + 3*i) * mem.MiB)
	}
	if n := matched(grow(42 * mem.MiB)); n != requests-features {
		t.Errorf("%d of %d requests came as foreseen", n, requests-features)
	}
	if n := matched(grow(75 * mem.MiB)); n > 0 {
		t.Errorf("a step half as large again: %d requests came as foreseen", n)
	}
	if n := matched(grow(74 * mem.MiB)); n != requests-features {
		t.Errorf("a step as large as another before: %d of %d requests came as foreseen", n, requests-features)
	}
	if n := matched(grow(15 * mem.MiB)); n > 0 {
		t.Errorf("a step of less than half the smallest: %d requests came as foreseen", n)
	}
}

// TestRouting: where sizes are new in each step nothing is planned, nor where a step that
// began like others goes on otherwise; from the third time in a row on for more and more steps.
func TestRouting(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l := New()
	for range 20 {
		feed(l, shaped(4*mem.MiB, 5*mem.MiB, func(i int) mem.Bytes { return mem.Bytes(2+rng.IntN(30)) * mem.MiB })...)
		l.Boundary()
	}
	if l.counts.Forecasts > 1 {
		t.Errorf("random sizes: %+v", l.counts)
	}
	l = New()
	for step := range 24 {
		feed(l, shaped(4*mem.MiB, 5*mem.MiB, func(i int) mem.Bytes {
			if i < 10 {
				return 6 * mem.MiB
			}
			return mem.Bytes(7+step) * mem.MiB
		})[:requests-step]...)
		l.Boundary()
	}
	if c := l.counts; c.Forecasts > 2*mostBad+1 || c.Bad != c.Forecasts || c.Off < 13 {
		t.Errorf("a step that goes on otherwise: %+v", c)
	}
}

// TestEvaluation: an evaluation that nobody marks is a step of its own from the first time
// on, and comes as foreseen from the second.
func TestEvaluation(t *testing.T) {
	l := New()
	weights, _ := l.Alloc(100 * mem.MiB)
	train := shaped(4*mem.MiB, 5*mem.MiB, func(i int) mem.Bytes { return mem.Bytes(2+i) * mem.MiB })
	eval := append(shaped(4*mem.MiB, 6*mem.MiB, func(i int) mem.Bytes { return mem.Bytes(2+i) * mem.MiB })[:90:90], 7*mem.MiB, 8*mem.MiB)
	l.Boundary()
	for step := range 20 {
		before := l.counts.Steps
		evaluated := -1
		if step%5 == 4 {
			evaluated = matched(feed(l, eval...))
		}
		trained := matched(feed(l, train...))
		l.Boundary()
		want := 1
		if evaluated >= 0 {
			want = 2
		}
		if n := l.counts.Steps - before; n != want {
			t.Errorf("step %d, evaluated %v: %d steps were seen", step, evaluated >= 0, n)
		}
		if evaluated >= 0 && step > 4 && evaluated != len(eval)-features {
			t.Errorf("step %d: %d requests of the evaluation came as foreseen", step, evaluated)
		}
		if step > 0 && trained != requests-features {
			t.Errorf("step %d: %d requests came as foreseen", step, trained)
		}
	}
	if l.counts.Kinds != 2 {
		t.Errorf("%+v", l.counts)
	}
	l.Done(weights)
}

// TestSwitch: a step that begins like two kinds is the other one from where they part.
func TestSwitch(t *testing.T) {
	l := New()
	step := func(n int) int {
		m := matched(feed(l, shaped(4*mem.MiB, 5*mem.MiB, func(i int) mem.Bytes { return mem.Bytes(2+i) * mem.MiB })[:n]...))
		l.Boundary()
		return m
	}
	long, short := 100, 60
	for _, n := range []int{long, short, long, short} {
		step(n)
	}
	for range 3 {
		if n := step(short); n != short-features {
			t.Errorf("%d of %d requests came as foreseen", n, short-features)
		}
		if n := step(long); n != long-features {
			t.Errorf("%d of %d requests came as foreseen", n, long-features)
		}
	}
}

// TestLate: a block whose memory is in use for longer than the program has it ends where that
// was seen, and later by a part of the wait; inherited ones end where they did twice.
func TestLate(t *testing.T) {
	l := New()
	inherited := None
	for step := range 4 {
		var refs []Ref
		for i := range 40 {
			r, _ := l.Alloc(mem.Bytes(2+i) * mem.MiB)
			refs = append(refs, r)
			if i == features && step == 3 {
				var f Forecast
				if !l.Forecast(&f) {
					t.Fatal("no forecast")
				}
				// Requests 10 to 39 come between the free of 9 and its end: 30 events.
				if p := f.Positions[9]; p.End != 10+1+30+30/lateMargin {
					t.Errorf("the late block is expected to end at %d", p.End)
				}
				if p := f.Positions[20]; p.Begin != 21 || p.End != 41+1+1 {
					t.Errorf("a block is expected from %d to %d", p.Begin, p.End)
				}
				if end := l.End(inherited); end != 41+1 {
					t.Errorf("the inherited block is expected to end at %d", end)
				}
				if end := l.End(refs[0]); end != 41+1+1+19 {
					t.Errorf("the first block is expected to end at %d", end)
				}
			}
			if i == 9 {
				l.Free(r)
			}
		}
		l.Done(refs[9])
		l.Done(inherited)
		for i := range 40 {
			if i = (i + 20) % 40; i != 9 && i != 39 {
				l.Done(refs[i])
			}
		}
		inherited = refs[39]
		l.Boundary()
	}
}

// TestStrange: no sequence of calls is an error.
func TestStrange(t *testing.T) {
	l := New()
	if r, m := l.Alloc(Large); r != None || m.Forecast != 0 {
		t.Errorf("a small request got %v, %+v", r, m)
	}
	r, _ := l.Alloc(Large + 1)
	for range 2 {
		l.Done(None)
		l.Free(None)
		l.Free(77)
		l.Done(77)
		l.Free(r)
		l.Done(r)
	}
	if l.held != 0 || l.load != 0 || len(l.run.tokens) != 2 {
		t.Errorf("%v held, %v live, %d events", l.held, l.load, len(l.run.tokens))
	}
	if l.End(r) != Never || l.End(None) != Never || l.End(77) != Never {
		t.Error("unknown blocks are expected to end")
	}
	l.Boundary()
	l.Boundary()
	// More live blocks than are followed, in a step that is too long.
	var refs []Ref
	for range maxLive + maxEvents {
		r, _ := l.Alloc(Large + 1)
		refs = append(refs, r)
	}
	for _, r := range refs {
		l.Done(r)
	}
	if l.held != 0 || l.load != 0 || len(l.live) > maxLive || len(l.run.tokens) > maxEvents {
		t.Errorf("%v held, %v live, %d blocks, %d events", l.held, l.load, len(l.live), len(l.run.tokens))
	}
	l.Boundary()
	for range 3 {
		feed(l, shaped(4*mem.MiB, 5*mem.MiB, func(i int) mem.Bytes { return mem.Bytes(i) * mem.MiB })...)
		l.Boundary()
	}
	if l.counts.Kinds != 1 || l.counts.Forecasts != 2 {
		t.Errorf("%+v", l.counts)
	}
}

// TestSteadyStateAllocatesNothing, whatever the steps do.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	l := New()
	var f Forecast
	live := make([]Ref, 0, requests)
	step := 0
	one := func() {
		step++
		for i := range requests - step%12 {
			size := mem.Bytes(2+i+step%7) * mem.MiB
			if step%5 == 0 {
				size += mem.Bytes(step%13) * mem.MiB
			}
			r, m := l.Alloc(size)
			if m.Forecast != f.Number {
				l.Forecast(&f)
			}
			live = append(live, r)
		}
		for _, r := range live {
			l.Free(r)
			l.Done(r)
		}
		live = live[:0]
		l.Boundary()
	}
	for range 400 {
		one()
	}
	if n := testing.AllocsPerRun(400, one); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
	if l.counts.Forecasts == 0 || l.counts.Kinds <= maxKinds {
		t.Errorf("a test of nothing: %+v", l.counts)
	}
}
