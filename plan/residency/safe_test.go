package residency

import (
	"testing"

	"stalloc/internal/mem"
)

// TestSafeStart: starts that were found by hand.
func TestSafeStart(t *testing.T) {
	for _, c := range []struct {
		load        []Load
		from        Nanos
		limit, size mem.Bytes
		rate        int64
		want        Nanos // in halves of a unit
		ok          bool
	}{
		{curve(3, 3, 2, 1, 0), 0, 4, 4, 1, 2, true}, // 1 more is there at 2, 2 at 3, 3 at 4
		{curve(3, 3, 2, 1, 0), 0, 4, 4, 2, 5, true}, // 2 by 3, 3 by 4: 1.5 before, 4 later
		{curve(3, 3, 2, 1, 0), 0, 7, 4, 1, 0, true}, // room for all
		{curve(3, 3, 2, 1, 0), 2 * unit, 7, 4, 1, 4, true},
		{curve(5, 3, 5, 1), 0, 4, 1, 1, 6, true},  // the load alone is too high until 3
		{curve(4, 0, 4, 0), 0, 4, 1, 1, 6, true},  // no room in the third unit
		{curve(1, 0, 1), 0, 4, 4, 1, 0, false},    // never room for all
		{curve(1, 0, 9), 0, 4, 4, 1, 0, false},    // too high for ever
		{nil, 3 * unit, 4, 4, 1, 6, true},         // nothing else
		{curve(4, 0), unit, 4, 4, 1, 2, true},     // what was before is of no matter
		{curve(9, 3, 0), unit, 4, 4, 1, 2, true},  // a unit at one a unit
		{curve(9, 3, 0), unit, 4, 4, 10, 3, true}, // a tenth of a unit before 2
	} {
		got, ok := SafeStart(c.load, c.from, c.limit, c.size, c.rate)
		if got/(unit/2) != c.want || ok != c.ok {
			t.Errorf("%+v: %d, %v", c, got, ok)
		}
	}
}

// TestSafeStartAgainstScan: nothing passes the limit from there on, and from a nanosecond earlier
// it does.
func TestSafeStartAgainstScan(t *testing.T) {
	rng := newRand(t)
	exceeds := func(load []Load, t Nanos, limit, size mem.Bytes, rate int64) bool {
		for k, l := range load {
			end := Nanos(1 << 50)
			if k+1 < len(load) {
				end = load[k+1].From
			}
			// By the end of the stretch, times 1e9: what came back has no fraction.
			back := min(max(0, int64(end-t))*rate, int64(size)*1e9)
			if end > t && int64(l.Bytes)*1e9+back > int64(limit)*1e9 {
				return true
			}
		}
		return false
	}
	for range 20000 {
		p := randomProblem(rng, 0, 2+rng.IntN(12))
		limit, size := mem.Bytes(rng.IntN(10)), mem.Bytes(1+rng.IntN(5))
		got, ok := SafeStart(p.Load, 0, limit, size, p.Link.Back)
		if last := p.Load[len(p.Load)-1].Bytes; ok != (last+size <= limit) {
			t.Fatalf("%v, limit %d, size %d: %v", p.Load, limit, size, ok)
		}
		if ok && (exceeds(p.Load, got, limit, size, p.Link.Back) ||
			got > 0 && !exceeds(p.Load, got-1, limit, size, p.Link.Back)) {
			t.Fatalf("%v, limit %d, size %d, rate %d: %d", p.Load, limit, size, p.Link.Back, got)
		}
	}
}

// TestNoLaterThanSafeStart: states that come back in parts are back when one return without a
// pause would be, or earlier, but for the last part's rounding.
func TestNoLaterThanSafeStart(t *testing.T) {
	rng := newRand(t)
	waited := 0
	for range 3000 {
		units := 6 + rng.IntN(20)
		p := randomProblem(rng, 0, units)
		p.Handle = 1
		end := p.Load[len(p.Load)-1].From + unit
		size := mem.Bytes(1 + rng.IntN(8))
		p.Items = []Item{{size, 0, end, true}}
		if least, _ := Least(p); p.Limit < least {
			p.Limit = least
		}
		start, ok := SafeStart(p.Load, 0, p.Limit, size, p.Link.Back)
		plan, err := Solve(p)
		if err != nil || !ok {
			t.Fatalf("%+v: %v, %v", p, ok, err)
		}
		back := duration(1, p.Link.Back)
		if out := duration(size, p.Link.Out); plan.Waits != nil && plan.Waits[0].At != end {
			continue // it waits for the way out
		} else if start = max(start, out); plan.Wait > max(0, start+Nanos(size+1)*back-end) {
			t.Fatalf("%+v: safe from %d, %+v", p, start, plan)
		}
		if plan.Wait > 0 {
			waited++
		}
	}
	if waited < 100 {
		t.Errorf("only %d problems were of use", waited)
	}
}
