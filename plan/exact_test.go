package plan

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
)

// tinyPieces calls use with pieces of random tiny problems, and their optimum.
func tinyPieces(t *testing.T, rounds int, use func(p *piece, best int64)) {
	rng := newRand(t)
	for n := 2; n <= 7; n++ {
		for range rounds {
			b := randomBuffers(rng, n, 2+n/2, 4)
			if rng.IntN(2) == 0 { // with twins
				b[n-1] = b[0]
			}
			for _, p := range newBoard(b, nil, make([]mem.Offset, n)).pieces(make([]mem.Offset, n)) {
				var part []Buffer
				for _, id := range p.ids {
					part = append(part, b[id])
				}
				use(p, int64(optimum(part)))
			}
		}
	}
}

func identity(n int) []int32 {
	order := make([]int32, n)
	for i := range order {
		order[i] = int32(i)
	}
	return order
}

// TestExactDecides: with any rule off or on, in both directions of time, a
// capacity is feasible from the optimum on, and the placement found is valid.
func TestExactDecides(t *testing.T) {
	tinyPieces(t, 60, func(p *piece, best int64) {
		for _, q := range []*piece{p, p.mirrored()} {
			for off := range rule(4) {
				e := newExact(q)
				e.off = off
				for capacity := best - 2*512; capacity <= best+512; capacity += 512 {
					const budget = 10_000_000
					found := e.run(identity(len(q.ids)), capacity, budget)
					if e.budget <= 0 {
						t.Fatal("the budget is spent")
					}
					if found != (capacity >= best) {
						t.Fatalf("rules off %b: capacity %d: found %v, optimum %d\n%+v", off, capacity, found, best, q)
					}
					if found {
						checkPiece(t, q, e.offset, capacity)
					} else if slices.Contains(e.placed, true) || len(e.log) != 0 || len(e.saved) != 0 || !slices.Equal(e.load, q.load) {
						t.Fatal("a failed search left something behind")
					}
				}
			}
		}
	})
}

func checkPiece(t *testing.T, p *piece, offset []int64, capacity int64) {
	t.Helper()
	var b []Buffer
	var at []mem.Offset
	for i := range p.ids {
		b = append(b, Buffer{mem.Tick(p.lo[i]), mem.Tick(p.hi[i]), mem.Bytes(p.size[i])})
		at = append(at, mem.Offset(offset[i]))
	}
	for tick := range p.floor {
		b = append(b, Buffer{mem.Tick(tick), mem.Tick(tick + 1), mem.Bytes(p.floor[tick])})
		at = append(at, 0)
	}
	if err := Validate(b, at, mem.Bytes(capacity)); err != nil {
		t.Fatal(err)
	}
}

// TestExactRulesSaveNodes: each rule makes proofs of infeasibility shorter.
func TestExactRulesSaveNodes(t *testing.T) {
	rng := newRand(t)
	nodes := map[rule]int{}
	proofs := 0
	for range 500 {
		b := denseBuffers(rng, 16, 20, 6)
		b = slices.DeleteFunc(b, func(Buffer) bool { return rng.IntN(14) == 0 }) // some room
		for _, p := range newBoard(b, nil, make([]mem.Offset, len(b))).pieces(make([]mem.Offset, len(b))) {
			const budget = 100_000
			e := newExact(p)
			if e.run(identity(len(p.ids)), p.bound, budget) || e.budget == 0 {
				continue
			}
			proofs++
			m := newExact(p.mirrored())
			if m.run(identity(len(p.ids)), p.bound, budget) {
				t.Fatal("found backward what does not exist forward")
			}
			for _, off := range []rule{0, ruleGaps, ruleTwins} {
				e.off = off
				if e.run(identity(len(p.ids)), p.bound, budget) {
					t.Fatalf("rules off %b: found what does not exist", off)
				}
				nodes[off] += budget - e.budget
			}
		}
	}
	t.Logf("%d proofs, nodes: all rules %d, gaps allowed %d, twins tried %d", proofs, nodes[0], nodes[ruleGaps], nodes[ruleTwins])
	if proofs < 3 || nodes[0] >= nodes[ruleGaps] || nodes[0] >= nodes[ruleTwins] {
		t.Error("a rule does not save nodes")
	}
}

// TestExactOnFloor: the floor of a piece counts as placed.
func TestExactOnFloor(t *testing.T) {
	rng := newRand(t)
	solved := 0
	for n := 1; n < 40; n++ {
		p := randomPiece(t, rng, n, true)
		f := newFit(p)
		top, _ := f.run(identity(n), 1<<40)
		e := newExact(p)
		if e.run(identity(n), top, 2000) {
			checkPiece(t, p, e.offset, top)
			solved++
		}
		m := newExact(p.mirrored())
		if m.run(identity(n), top, 2000) {
			checkPiece(t, p, m.offset, top)
		}
	}
	if solved < 20 {
		t.Errorf("only %d of 39 pieces were placed below what first fit needs", solved)
	}
}

// TestSolveHardInstances: instances that no priority solves fall to exact
// search within the default budget.
func TestSolveHardInstances(t *testing.T) {
	solved := 0
	for name, b := range instances(t, "minimalloc") {
		s := Solve(b, Options{})
		checkSolution(t, name, b, s)
		t.Logf("%s: %d buffers, gap %.2f %%, %d descents, %s", name, len(b), 100*s.Gap(), s.Descents, s.Order)
		if s.Gap() > 0.16 {
			t.Errorf("%s: gap %.2f %%", name, 100*s.Gap())
		}
		if s.Makespan == s.LowerBound {
			solved++
		}
	}
	if solved < 6 {
		t.Errorf("only %d of 12 reach their lower bound", solved)
	}
}
