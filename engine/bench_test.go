package engine

import (
	"testing"

	"stalloc/internal/invariants"
	"stalloc/internal/mem"
)

// warm returns an engine that holds many blocks with holes between them, stitched
// views included, and has served a request of every size below.
func warm(t testing.TB) (*Engine, []Op) {
	e := New(DefaultConfig())
	var ops []Op
	var addrs []mem.Addr
	for i := range 2000 {
		size := mem.Bytes(i%37+1) * 300 * mem.KiB
		ops = e.Step(Event{Kind: EvAlloc, Req: uint64(i), Size: size}, ops[:0])
		addrs = append(addrs, ops[len(ops)-1].Addr)
		if i%3 == 2 {
			e.Step(Event{Kind: EvFree, Addr: addrs[i-1-i%2]}, ops[:0])
		}
	}
	for range 3 {
		for _, n := range benchSizes {
			ops = e.Step(Event{Kind: EvAlloc, Size: n}, ops[:0])
			if op := ops[len(ops)-1]; op.Kind != OpGrant {
				t.Fatalf("%v for %v", op, n)
			}
			ops = e.Step(Event{Kind: EvFree, Addr: ops[len(ops)-1].Addr}, ops[:0])
		}
		ops = e.Step(Event{Kind: EvBoundary}, ops[:0])
	}
	return e, ops
}

var benchSizes = []mem.Bytes{512, 80 * mem.KiB, 3 * mem.MiB, 12 * mem.MiB, 200 * mem.MiB}

// TestSteadyStateAllocatesNothing: neither Go memory nor driver calls.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	e, ops := warm(t)
	calls := e.Stats().Maps
	allocs := testing.AllocsPerRun(50, func() {
		var held [16]mem.Addr
		for i := range held {
			ops = e.Step(Event{Kind: EvAlloc, Size: benchSizes[i%len(benchSizes)] + mem.Bytes(i)*512}, ops[:0])
			held[i] = ops[len(ops)-1].Addr
		}
		ops = e.Step(Event{Kind: EvRecord, Addr: held[0], Stream: 9}, ops[:0])
		for _, a := range held {
			ops = e.Step(Event{Kind: EvFree, Addr: a}, ops[:0])
			if len(ops) == 1 {
				ops = e.Step(Event{Kind: EvFence, Fence: ops[0].Fence}, ops[:0])
			}
		}
		ops = e.Step(Event{Kind: EvBoundary}, ops[:0])
	})
	if allocs != 0 && !invariants.Enabled { // the recount needs memory
		t.Errorf("a steady step allocates %.1f times", allocs)
	}
	before := e.Stats().Maps
	if before-calls > 2000 {
		t.Errorf("warming up took %d maps", before-calls)
	}
}

// BenchmarkMissCached is a request that a free run serves, and its free: through
// the hint of the step before, and without it.
func BenchmarkMissCached(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(n.String()+"/fit", func(b *testing.B) { pair(b, n, false) })
		b.Run(n.String()+"/sticky", func(b *testing.B) { pair(b, n, true) })
	}
}

func pair(b *testing.B, n mem.Bytes, sticky bool) {
	e, ops := warm(b)
	e.cfg.Sticky = sticky
	b.ReportAllocs()
	for b.Loop() {
		ops = e.Step(Event{Kind: EvAlloc, Size: n}, ops[:0])
		ops = e.Step(Event{Kind: EvFree, Addr: ops[0].Addr}, ops[:0])
		e.hints.epoch++ // a boundary without its clean-up: the first ordinal again
	}
}
