package replay

import (
	"testing"

	"stalloc/plan"
)

func TestObserve(t *testing.T) {
	steps := Observe(script(t, "tiny", `
# workload tiny
# setup
a,0,1000,5,1
# step 0
a,1,2048,5,2
r,1,2
f,1,2
a,2,700,7,3
# step 1
r,2,4
f,2,4
a,3,4096,7,5
r,3,6
a,4,512,7,7
r,4,7
f,4,7
f,3,8
# end
a,5,512,5,9
`))
	if len(steps) != 2 || len(steps[0]) != 2 || len(steps[1]) != 2 {
		t.Fatalf("got %d steps: %v", len(steps), steps)
	}
	same(t, "set-up and step 0, first stream", steps[0][0], &plan.Step{
		Ops:    []plan.Op{{Block: 0}, {Block: 1}, {Block: 1, Free: true}},
		Blocks: []plan.Block{{Size: 1024, Alloc: 0, Free: 3}, {Size: 2048, Alloc: 1, Free: 2}},
	})
	same(t, "set-up and step 0, second stream", steps[0][1], &plan.Step{
		Ops:    []plan.Op{{Block: 0}},
		Blocks: []plan.Block{{Size: 1024, Alloc: 0, Free: 1}},
	})
	same(t, "step 1, first stream", steps[1][0], &plan.Step{
		Blocks: []plan.Block{{Size: 1024, Alloc: -1, Free: 0}},
	})
	same(t, "step 1, second stream: the free put off is excluded", steps[1][1], &plan.Step{
		Ops: []plan.Op{{Block: 0, Free: true}, {Block: 1}, {Block: 2}, {Block: 2, Free: true}, {Block: 1, Free: true}},
		Blocks: []plan.Block{
			{Size: 1024, Alloc: -1, Free: 0}, {Size: 4096, Alloc: 1, Free: 4, Pinned: true}, {Size: 512, Alloc: 2, Free: 3},
		},
	})
}

func TestObserveWithoutMarks(t *testing.T) {
	steps := Observe(script(t, "tiny", "# workload tiny\na,0,512,0,1\nr,0,2\nf,0,2"))
	if len(steps) != 1 || len(steps[0]) != 1 || len(steps[0][0].Ops) != 2 {
		t.Fatalf("got %+v", steps)
	}
	if steps := Observe(script(t, "empty", "# workload empty")); len(steps) != 1 || len(steps[0]) != 0 {
		t.Fatalf("an empty trace gave %+v", steps)
	}
}

func same(t *testing.T, what string, got, want *plan.Step) {
	t.Helper()
	if len(got.Ops) != len(want.Ops) || len(got.Blocks) != len(want.Blocks) {
		t.Errorf("%s: got %+v, want %+v", what, *got, *want)
		return
	}
	for i := range want.Ops {
		if got.Ops[i] != want.Ops[i] {
			t.Errorf("%s: operation %d is %+v, want %+v", what, i, got.Ops[i], want.Ops[i])
		}
	}
	for i := range want.Blocks {
		if got.Blocks[i] != want.Blocks[i] {
			t.Errorf("%s: block %d is %+v, want %+v", what, i, got.Blocks[i], want.Blocks[i])
		}
	}
}
