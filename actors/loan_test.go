package actors

import (
	"math"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/engine"
	"stalloc/internal/mem"
)

// idleBorrower gives everything back as it was.
type idleBorrower struct {
	counters engine.Counters
	served   uint64 // for how many requests and frees it has the state
}

func (b *idleBorrower) Lend(l *engine.Lent, until uint64) {
	b.counters, b.served = l.Counters, until-l.Clock
}

func (b *idleBorrower) TakeBack(c *engine.Counters) bool {
	*c = b.counters
	return true
}

// TestOnlyMemoryThatWaitsEndsTheLoan: the driver is asked about a freed block's fences
// every few requests. A view whose address is still in use is wanted by no request that
// the borrower could serve.
func TestOnlyMemoryThatWaitsEndsTheLoan(t *testing.T) {
	cfg := engine.DefaultConfig()
	cfg.PatchPages, cfg.Slack, cfg.First = 2, 0, 0
	gpu := sim.New(sim.Config{Capacity: mem.GiB, Manual: true})
	p, err := newPool(device.NewOwner(gpu), &Options{Engine: cfg, Log: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	b := &idleBorrower{}
	p.loan = loan{to: b, from: p.eng.(lender), open: func() bool { return true }, traffic: new(atomic.Uint64)}
	tell := func(q question) {
		t.Helper()
		if err := p.answer(q); err != nil {
			t.Fatal(err)
		}
	}
	malloc := func(size mem.Bytes) mem.Addr {
		t.Helper()
		m := &allocRequest{size: size}
		tell(m)
		return m.addr
	}
	free := func(addr mem.Addr) {
		t.Helper()
		tell(&freeRequest{addr: addr})
	}
	expect := func(what string, fences int, served uint64) {
		t.Helper()
		if p.fences.n != fences || b.served != served {
			t.Errorf("%s: %d fences, lent for %d events, expected %d and %d", what, p.fences.n, b.served, fences, served)
		}
	}
	const ever = math.MaxUint64
	first, between, last := malloc(8*mem.MiB), malloc(8*mem.MiB), malloc(8*mem.MiB)
	free(first)
	free(last)
	stitched := malloc(16 * mem.MiB)
	free(stitched)
	expect("a view waits", 1, ever-p.loan.lent.Clock)
	tell(&recordRequest{addr: between, stream: 1})
	free(between)
	expect("a block waits, too", 2, lentWhilePending)
	gpu.Finish(1)
	malloc(mem.MiB)
	expect("the block's fence has passed", 1, ever-p.loan.lent.Clock)
	gpu.Finish(0)
	malloc(mem.MiB)
	expect("a small block asks about no view", 1, ever-p.loan.lent.Clock)
	malloc(4 * mem.MiB)
	expect("all have", 0, ever-p.loan.lent.Clock)
	if err := p.eng.Check(); err != nil {
		t.Error(err)
	}
}
