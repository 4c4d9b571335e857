package residency

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// brute is every plan of a small problem in whole units, on a link of one byte a unit.
type brute struct {
	p       *Problem
	load    []mem.Bytes // by unit
	horizon int8
	known   map[bruteState]bruteCost
}

// bruteState is where the program is, how far each item is, and what each copy lacks.
type bruteState struct {
	at        int8
	item      [5]bruteItem
	out, back int8
}

type bruteItem int8

const (
	stays bruteItem = iota
	leaving
	gone
	coming
	again
)

// bruteCost is units waited, then bytes.
type bruteCost struct{ wait, bytes int32 }

func (a bruteCost) less(b bruteCost) bool {
	return a.wait < b.wait || a.wait == b.wait && a.bytes < b.bytes
}

var never = bruteCost{1 << 20, 0}

func newBrute(p *Problem, units int) *brute {
	b := &brute{p: p, horizon: int8(units), known: make(map[bruteState]bruteCost)}
	for u := range units + 1 {
		sum := mem.Bytes(0)
		for _, l := range p.Load {
			if l.From <= Nanos(u)*unit {
				sum = l.Bytes
			}
		}
		b.load = append(b.load, sum)
	}
	return b
}

// best is the least cost from a state on, when the program has just come there or waits there.
func (b *brute) best(s bruteState) bruteCost {
	if c, ok := b.known[s]; ok {
		return c
	}
	cost := b.begin(s, 0)
	b.known[s] = cost
	return cost
}

// begin tries what copies begin now: nothing, or one where the direction is free.
func (b *brute) begin(s bruteState, direction int) bruteCost {
	if direction == 2 {
		return b.pass(s)
	}
	best := b.begin(s, direction+1)
	for i, it := range b.p.Items {
		next, more := s, int32(0)
		switch {
		case direction == 0 && s.out == 0 && s.item[i] == stays && b.idle(i, s.at):
			next.item[i], next.out, more = leaving, int8(it.Size), int32(it.Size)
		case direction == 1 && s.back == 0 && s.item[i] == gone:
			next.item[i], next.back = coming, int8(it.Size)
		default:
			continue
		}
		c := b.begin(next, direction+1)
		c.bytes += more
		if c.less(best) {
			best = c
		}
	}
	return best
}

func (b *brute) idle(i int, at int8) bool {
	return b.p.Items[i].Idle <= Nanos(at)*unit && Nanos(at)*unit < b.p.Items[i].Need
}

// pass lets a unit pass; behind it the program goes on or waits.
func (b *brute) pass(s bruteState) bruteCost {
	sum := b.load[s.at]
	for i, it := range b.p.Items {
		if b.idle(i, s.at) && s.item[i] != gone {
			sum += it.Size
		}
	}
	if sum > b.p.Limit {
		return never
	}
	busy := s.out+s.back > 0
	s.out, s.back = max(0, s.out-1), max(0, s.back-1)
	goes := true
	for i, it := range b.p.Items {
		if s.item[i] == leaving && s.out == 0 {
			s.item[i] = gone
		}
		if s.item[i] == coming && s.back == 0 {
			s.item[i] = again
		}
		if it.Need == Nanos(s.at+1)*unit && s.item[i] != stays && s.item[i] != again {
			goes = false
		}
	}
	best := never
	if busy {
		best = b.best(s)
		best.wait++
	}
	if s.at++; goes && s.at == b.horizon {
		return bruteCost{}
	}
	if goes {
		if c := b.best(s); c.less(best) {
			best = c
		}
	}
	return best
}

// TestAgainstBruteForce: what fits is known exactly, and how far plans are from the best is bounded.
func TestAgainstBruteForce(t *testing.T) {
	rng := newRand(t)
	var byWait, byBytes [6]int // by how many units or bytes more than the best
	ratio, solved := 1.0, 0
	for range 3000 {
		units := 3 + rng.IntN(8)
		p := smallProblem(rng, 1+rng.IntN(5), units)
		plan, err := Solve(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(p, &plan); err != nil {
			t.Fatal(err)
		}
		best := newBrute(p, units).best(bruteState{})
		if plan.Fits() != (best.wait < never.wait) {
			t.Fatalf("%+v: fits %v, best %+v", p, plan.Fits(), best)
		}
		if !plan.Fits() {
			continue
		}
		solved++
		worse := int(plan.Wait/unit) - int(best.wait)
		byWait[min(5, worse)]++
		if worse < 0 || worse > 4 {
			t.Errorf("%+v\nwaits %d, best %+v\n%+v", p, plan.Wait/unit, best, plan)
		}
		if worse == 0 {
			more := int(plan.Left) - int(best.bytes)
			byBytes[min(5, more)]++
			if best.bytes > 0 {
				ratio = max(ratio, float64(plan.Left)/float64(best.bytes))
			}
			if more < 0 {
				t.Errorf("%+v\nleaves %d, best %+v\n%+v", p, plan.Left, best, plan)
			}
		}
	}
	t.Logf("%d that fit: units waited more than the best %v, bytes more %v, at most %.2f times",
		solved, byWait, byBytes, ratio)
}

func smallProblem(rng *rand.Rand, n, units int) *Problem {
	p := randomProblem(rng, n, units)
	for i := range p.Items {
		p.Items[i].Parts = false
		p.Items[i].Size = mem.Bytes(1 + rng.IntN(3))
	}
	p.Handle, p.Link = 1, Link{1, 1}
	g := newGrid(p)
	least, most := g.least(), mem.Bytes(0)
	for _, t := range g.total {
		most = max(most, t)
	}
	p.Limit = max(0, least+mem.Bytes(rng.Int64N(int64(most-least)+2))-1)
	return p
}
