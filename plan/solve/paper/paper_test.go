package paper

import (
	"slices"
	"testing"

	"stalloc/internal/mem"
	"stalloc/plan/solve/dsa"
)

func newPlanner(b []dsa.Buffer) *planner {
	in := dsa.Compress(&dsa.Problem{Buffers: b})
	w := dsa.NewWork(0, func() (int64, bool) { return 1 << 40, true })
	return &planner{in: in, w: w, at: make([]int64, len(in.IDs)), done: make([]bool, len(in.IDs))}
}

// twoPhases is a parameter, two blocks of a first phase, two of a second, and short ones in
// between.
func twoPhases() []dsa.Buffer {
	b := []dsa.Buffer{{Lower: 0, Upper: 20, Size: 2}, {Lower: 0, Upper: 10, Size: 3},
		{Lower: 1, Upper: 9, Size: 2}}
	b = append(b, dsa.Buffer{Lower: 10, Upper: 20, Size: 3}, dsa.Buffer{Lower: 11, Upper: 19,
		Size: 2})
	for _, at := range []int{2, 4, 6, 12, 14, 16} {
		b = append(b, dsa.Buffer{Lower: mem.Tick(at), Upper: mem.Tick(at + 1), Size: 1})
	}
	return b
}

// TestPlan: what lives throughout is the lowest, each phase is a group on it, the second in the
// idle time of the first's layer, and what is short lies above both.
func TestPlan(t *testing.T) {
	p := newPlanner(twoPhases())
	p.persistent()
	groups := p.homophase(2)
	if len(groups) != 2 || groups[0].height != 5 || groups[1].height != 5 ||
		groups[0].occupancy() != 1 {
		t.Fatalf("expected two groups of 5 bytes that are full: %+v, %+v", groups[0],
			groups[len(groups)-1])
	}
	p = newPlanner(twoPhases())
	p.plan(2)
	got := p.in.Offsets(&dsa.Problem{Buffers: twoPhases()}, p.w.At)
	want := []int64{0, 2, 5, 2, 5, 7, 7, 7, 7, 7, 7}
	for i := range want {
		if int64(got[i]) != want[i] {
			t.Fatalf("%v, expected %v", got, want)
		}
	}
	if p.w.Top != 8 || p.in.Bound != 8 {
		t.Errorf("it ends at %d, expected 8", p.w.Top)
	}
}

// TestDissolve: blocks that fill less than 0.7 of their rectangle are no group, nor is a single
// one.
func TestDissolve(t *testing.T) {
	p := newPlanner(twoPhases())
	of := func(used float64, boxes ...int32) *block {
		return &block{lo: 0, hi: 10, height: 10, used: used, boxes: boxes}
	}
	full, loose, single := of(70, 1, 2), of(69, 1, 2), of(100, 1)
	if kept := p.dissolve([]*block{full, loose, single}); len(kept) != 1 || kept[0] != full {
		t.Errorf("%d groups are kept, expected the one of 70 of 100", len(kept))
	}
}

// TestStair: a group is laid into the steps that another leaves when its blocks end one after
// another, and into those that it leaves before they begin.
//
//	3 | a a a a b b b b b b      a: [0, 4) and A: [0, 6) of one phase,
//	2 | a a a a b b b b b b      b: [4, 10) of size 2, and B: [6, 10) of size 1
//	1 | A A A A A A . . . .
//	0 | A A A A A A B B B B
func TestStair(t *testing.T) {
	blocks := []dsa.Buffer{{Lower: 0, Upper: 4, Size: 2}, {Lower: 0, Upper: 6, Size: 2},
		{Lower: 4, Upper: 10, Size: 2}, {Lower: 6, Upper: 10, Size: 1}}
	mirrored := make([]dsa.Buffer, len(blocks))
	for i, b := range blocks {
		mirrored[i] = dsa.Buffer{Lower: 10 - b.Upper, Upper: 10 - b.Lower, Size: b.Size}
	}
	for name, c := range map[string]struct {
		blocks        []dsa.Buffer
		first, second []int32 // boxes, in the order of their starts
	}{"ends": {blocks, []int32{0, 1}, []int32{2, 3}}, "starts": {mirrored, []int32{0, 1},
		[]int32{2, 3}}} {
		p := newPlanner(c.blocks)
		groups := make([]*block, 2)
		for i, boxes := range [][]int32{c.first, c.second} {
			groups[i] = &block{}
			for _, box := range boxes {
				p.add(groups[i], box, groups[i].height)
			}
		}
		fused := p.fuse(groups)
		if len(fused) != 1 || fused[0].height != 4 {
			t.Fatalf("%s: %d groups, the first of %d bytes: expected one of 4", name, len(fused),
				fused[0].height)
		}
		at := make([]int64, len(blocks))
		for k, box := range fused[0].boxes {
			at[box] = fused[0].inner[k]
		}
		problem := &dsa.Problem{Buffers: c.blocks}
		if err := dsa.Check(problem, p.in.Offsets(problem, at)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == "ends" && !slices.Equal(at, []int64{2, 0, 2, 0}) {
			t.Errorf("%v, expected 2 0 2 0", at)
		}
	}
}

// TestGaps: a block with a gap is of no group, and another lies in its gap.
func TestGaps(t *testing.T) {
	problem := &dsa.Problem{Buffers: append(twoPhases(), dsa.Buffer{Lower: 0, Upper: 20, Size: 5}),
		Gaps: []dsa.Gap{{Buffer: 11, Lower: 2, Upper: 18}}}
	in := dsa.Compress(problem)
	w := dsa.NewWork(0, func() (int64, bool) { return 1 << 40, true })
	Run(in, w, 0, 0, nil)
	if err := dsa.Check(problem, in.Offsets(problem, w.At)); err != nil {
		t.Error(err)
	}
	if w.Top != 12 { // 2 + 5 + 5 while nothing short lives
		t.Errorf("it ends at %d, expected 12", w.Top)
	}
	p := &planner{in: in, w: w, at: make([]int64, len(in.IDs)), done: make([]bool, len(in.IDs))}
	p.persistent()
	for _, g := range p.homophase(2) {
		for _, box := range g.boxes {
			if !in.Whole(box) {
				t.Errorf("a block with a gap is of a group of %d", len(g.boxes))
			}
		}
	}
}
