package onerange

import (
	"iter"
	"math/rand/v2"
	"testing"

	"stalloc/engine"
	"stalloc/engine/index"
	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// counting is an index that counts the gaps that are walked.
type counting struct {
	index.Index
	walked int
}

func (c *counting) Gaps(s uint32) iter.Seq[index.Gap] {
	return func(yield func(index.Gap) bool) {
		for g := range c.Index.Gaps(s) {
			if c.walked++; !yield(g) {
				return
			}
		}
	}
}

// TestCrowd: however many gaps there are, what a request or the end of a step walks is bounded. The
// requests are planned where a block lies, and handles may rise.
func TestCrowd(t *testing.T) {
	const blocks = 24_000
	most := 2 * mostGaps
	if invariants.Enabled { // a check walks some, too
		most *= 2
	}
	idx := &counting{Index: index.NewModel()}
	e := New(DefaultConfig(), idx)
	rng := rand.New(rand.NewPCG(3, 3))
	req, worst, taken := uint64(0), 0, mem.Addr(0)
	var ops []engine.Op
	run := func(ev engine.Event) (last engine.Op) {
		idx.walked = 0
		resume := func() []engine.Op {
			return e.Step(engine.Event{Kind: engine.EvResume, Req: last.Req}, ops[:0])
		}
		for ops = e.Step(ev, ops[:0]); len(ops) > 0; ops = resume() {
			if last = ops[len(ops)-1]; last.Kind != engine.OpResume {
				break
			}
		}
		worst = max(worst, idx.walked)
		return last
	}
	alloc := func() mem.Addr {
		req++
		op := run(engine.Event{Kind: engine.EvAlloc, Req: req,
			Asked: 1 + mem.Bytes(rng.Int64N(int64(6*mem.MiB))), Addr: taken,
			Means: engine.MeansRise})
		if op.Kind != engine.OpGrant {
			t.Fatalf("request %d is answered by %+v", req, op)
		}
		return op.Addr
	}
	live := make([]mem.Addr, blocks)
	for i := range live {
		live[i] = alloc()
	}
	taken = live[1]
	free := func(i int) { run(engine.Event{Kind: engine.EvFree, Addr: live[i]}) }
	for round := range 6 { // the first leaves a gap after each other block
		for i := 0; i < blocks; i += 2 {
			free(i)
		}
		if round == 0 && !e.tooFragmented(firstArena) {
			t.Fatal("there are few gaps")
		}
		run(engine.Event{Kind: engine.EvBoundary})
		e.Gaps(0, false, func(engine.Range) {})
		for i := 0; i < blocks; i += 2 {
			live[i] = alloc()
		}
	}
	if worst > most {
		t.Errorf("an event has walked %d gaps, at most %d are meant", worst, most)
	}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}
