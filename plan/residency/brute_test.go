package residency

import (
	"math/rand/v2"
	"testing"

	"stalloc/internal/mem"
)

// brute is every plan of a small problem in whole units.
type brute struct {
	p       *Problem
	load    []mem.Bytes // by unit
	horizon int8
	known   map[bruteState]bruteCost
}

// bruteState is where the program is, how far each item is, and what is left of each copy.
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

var impossible = bruteCost{1 << 20, 0}

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
			next.item[i], more = leaving, int32(it.Size)
			next.out = int8(int64(it.Size) / b.p.Link.Out)
		case direction == 1 && s.back == 0 && s.item[i] == gone:
			next.item[i], next.back = coming, int8(int64(it.Size)/b.p.Link.Back)
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
		return impossible
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
	best := impossible
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

// TestAgainstBruteForce: what fits is known exactly, and how far plans are from the best is
// bounded. The problems are always the same: the bounds are measured, not proven.
func TestAgainstBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var byWait, byBytes [6]int // by how many units or bytes more than the best
	ratio := 1.0
	for range 6000 {
		units := 3 + rng.IntN(8)
		p := smallProblem(rng, 1+rng.IntN(5), units)
		plan, best := solveBoth(t, p, units)
		if (plan.Over == 0) != (best.wait < impossible.wait) {
			t.Fatalf("%+v: fits %v, best %+v", p, plan.Over == 0, best)
		}
		if plan.Over > 0 {
			continue
		}
		wait, more := int(plan.Wait/unit)-int(best.wait), int(plan.Left)-int(best.bytes)
		if wait < 0 || wait == 0 && more < 0 {
			t.Errorf("%+v: better than the best %+v: %+v", p, best, plan)
			continue
		}
		byWait[min(5, wait)]++
		if wait == 0 {
			byBytes[min(5, more)]++
			ratio = max(ratio, float64(plan.Left)/float64(max(1, best.bytes)))
		}
	}
	t.Logf("units waited more than the best %v, bytes more %v, at most %.2f times", byWait, byBytes,
		ratio)
	if byWait[0] < 3000 || byWait[1] > 8 || byWait[2] > 1 || byWait[3]+byWait[4]+byWait[5] > 0 ||
		byBytes[0] < byWait[0]-1 || ratio > 1.5 {
		t.Errorf("plans are farther from the best than they were")
	}
}

// TestNestedIsOptimal: of a forward and a backward pass with parts of one size, no plan waits
// for nothing where one need not, and none lets fewer bytes leave.
func TestNestedIsOptimal(t *testing.T) {
	rng := newRand(t)
	free := 0
	for range 4000 {
		p := nested(rng, 1+rng.IntN(5), 2, Link{1 + rng.Int64N(2), 1 + rng.Int64N(2)})
		units := int(p.Items[0].Need / unit)
		g := newGrid(p)
		least, most := g.least(), mem.Bytes(0)
		for _, t := range g.total {
			most = max(most, t)
		}
		p.Limit = least + mem.Bytes(rng.Int64N(int64(most-least)+1))
		plan, best := solveBoth(t, p, units)
		if best.wait > 0 || best.bytes == 0 {
			continue
		}
		free++
		if plan.Wait != 0 || plan.Left != mem.Bytes(best.bytes) {
			t.Fatalf("%+v: best %+v, got %+v", p, best, plan)
		}
	}
	if free < 100 {
		t.Errorf("only %d problems were of use", free)
	}
}

// solveBoth returns a valid plan, and the least cost.
func solveBoth(t *testing.T, p *Problem, units int) (Plan, bruteCost) {
	t.Helper()
	return solve(t, p), newBrute(p, units).best(bruteState{})
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
