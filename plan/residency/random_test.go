package residency

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"stalloc/internal/mem"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the randomized tests; 0 takes a new one")

// newRand returns a source of randomness whose seed is printed on failure.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("repeat with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// unit is a second: links carry whole bytes in it, so that small numbers are easy to follow.
const unit = Nanos(1e9)

// randomProblem has up to n items within so many units, and a limit that is hard or not.
func randomProblem(rng *rand.Rand, n, units int) *Problem {
	p := &Problem{Handle: mem.Bytes(1 + rng.IntN(2)),
		Link: Link{1 + rng.Int64N(4), 1 + rng.Int64N(4)}}
	for range n {
		from := rng.IntN(units)
		p.Items = append(p.Items, Item{mem.Bytes(1 + rng.IntN(5)), Nanos(from) * unit,
			Nanos(from+rng.IntN(units-from+1)) * unit, rng.IntN(3) == 0})
	}
	for at := 0; at < units; at += 1 + rng.IntN(3) {
		p.Load = append(p.Load, Load{Nanos(at) * unit, mem.Bytes(rng.IntN(8))})
	}
	g := newGrid(p)
	least, most := g.least(), mem.Bytes(0)
	for _, t := range g.total {
		most = max(most, t)
	}
	p.Limit = least + mem.Bytes(rng.Int64N(int64(most-least)+2)) - 1
	return p
}

// nested is a forward and a backward pass: n layers, each of which saves what is needed again.
func nested(rng *rand.Rand, n int, size mem.Bytes, link Link) *Problem {
	p := &Problem{Handle: size, Link: link}
	at, back := Nanos(0), Nanos(0)
	for range n {
		at += Nanos(rng.Int64N(3)) * unit
		p.Items = append(p.Items, Item{Size: size, Idle: at})
	}
	back = at + unit
	for i := n - 1; i >= 0; i-- {
		back += Nanos(rng.Int64N(3)) * unit
		p.Items[i].Need = back
	}
	load := mem.Bytes(0)
	for t := Nanos(0); t < back; t += Nanos(1+rng.Int64N(3)) * unit {
		load = max(0, load+mem.Bytes(rng.Int64N(7)-3))
		p.Load = append(p.Load, Load{t, load})
	}
	return p
}

// TestRandom: plans of random problems are valid, always the same, and kept to where they can be.
func TestRandom(t *testing.T) {
	rng := newRand(t)
	kinds := make(map[string]int)
	for round := range 1500 {
		p := randomProblem(rng, 1+rng.IntN(1+round/30), 3+rng.IntN(20))
		plan, err := Solve(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(p, &plan); err != nil {
			t.Fatalf("round %d: %v\n%+v\n%+v", round, err, p, plan)
		}
		least, _ := Least(p)
		if (plan.Over == 0) != (least <= p.Limit) {
			t.Fatalf("round %d: least %d, limit %d, %+v", round, least, p.Limit, plan)
		}
		if again, _ := Solve(p); !reflect.DeepEqual(plan, again) {
			t.Fatalf("round %d: two plans of one problem", round)
		}
		switch {
		case plan.Over > 0:
			kinds["over"]++
		case plan.Wait > 0:
			kinds["waits"]++
		case plan.Left > 0:
			kinds["leaves"]++
		default:
			kinds["nothing"]++
		}
	}
	t.Log(kinds)
	for _, k := range []string{"over", "waits", "leaves", "nothing"} {
		if kinds[k] < 50 {
			t.Errorf("only %d of the kind %q", kinds[k], k)
		}
	}
}

// TestQuality: how much leaves where nothing waits, and how long is waited on a slow link, over
// problems of parts of many sizes that overlap. They are always the same. Without any one of:
// taking parts back, exchanging them, several orders of choosing, a choice that stalls, it is more.
func TestQuality(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	left, wait, slow := mem.Bytes(0), Nanos(0), mem.Bytes(0)
	for range 300 {
		p := randomProblem(rng, 2+rng.IntN(40), 20)
		for i := range p.Items {
			p.Items[i].Size, p.Items[i].Parts = mem.Bytes(1+rng.IntN(20)), false
		}
		p.Handle, p.Link = 1, Link{100, 100}
		least, free, whole := limits(p)
		p.Limit = (free + whole) / 2
		plan := solve(t, p)
		if left += plan.Left; plan.Wait > 0 {
			t.Errorf("%+v waits: %+v", p, plan)
		}
		p.Link, p.Limit = Link{8, 5}, (least+whole)/2
		plan = solve(t, p)
		wait, slow = wait+plan.Wait, slow+plan.Left
	}
	t.Logf("%d bytes leave without waits; %.1f s are waited for %d", left, float64(wait)/1e9, slow)
	if left > 10400 || wait > 915*unit {
		t.Errorf("that is more than 10,293 bytes, or 911.5 s")
	}
}

// limits returns the least limit that can be kept, one at which nothing has to be waited for, and
// the one at which nothing has to leave.
func limits(p *Problem) (least, free, whole mem.Bytes) {
	g := newGrid(p)
	c := newChooser(g)
	least, free = g.least(), slices.Max(g.total)
	whole = free
	for low := least; free-low > 1; {
		if g.limit = low + (free-low)/2; c.choose(orders[0]) {
			free = g.limit
		} else {
			low = g.limit
		}
	}
	return least, free, whole
}

// solve returns a plan that is valid.
func solve(t *testing.T, p *Problem) Plan {
	t.Helper()
	plan, err := Solve(p)
	if err == nil {
		err = validate(p, &plan)
	}
	if err != nil {
		t.Fatalf("%v\n%+v\n%+v", err, p, plan)
	}
	return plan
}
