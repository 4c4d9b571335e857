package actors

import (
	"fmt"
	"math"

	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/plan/predict"
)

// loan is what the pool knows about its state being lent. From takeBack to lend the pool
// has the host's lock; with a borrower, the state of the engine as well, which otherwise
// is the borrower's.
type loan struct {
	to   Borrower    // nil: the host has no quick case, or the policy none
	open func() bool // whether nobody needs to see each request
	lent onerange.Lent
	out  bool
}

// lentWhilePending is how many requests and frees the borrower may serve while memory
// waits for fences that the driver must be asked about.
const lentWhilePending = 8

// lentWhileUnsettled is how many while the step may turn out to be of another kind.
const lentWhileUnsettled = 64

// borrow has the pool lend its state to its host, if both are able to.
func (p *pool) borrow(open func() bool) {
	if to, can := p.host.(Borrower); can && p.ranged != nil {
		p.loan = loan{to: to, open: open}
	}
}

// unwatched reports whether nobody needs to see each request.
func (d *Device) unwatched() bool {
	return d.auto.marked.Load() && !d.late.due.Load() && (d.opening == nil || d.opening.over.Load())
}

func (p *pool) takeBack() {
	l := &p.loan
	if !l.out {
		p.host.Lock()
		return
	}
	l.out = false
	whole := l.to.TakeBack(&l.lent.Counters)
	p.ranged.TakeBack(&l.lent.Counters)
	if !whole {
		p.broken = fmt.Errorf("%w: an equation did not hold in the quick case", ErrBroken)
	}
}

func (p *pool) lend() {
	l := &p.loan
	if l.to == nil || p.broken != nil || !p.ranged.Lend(&l.lent) {
		p.host.Unlock()
		return
	}
	t := Terms{Until: math.MaxUint64, Most: uint64(p.largest / mem.Grain), TapeOnly: !l.open()}
	next, soon := p.ahead.watches()
	if next {
		t.Most = uint64(predict.Large / mem.Grain)
	}
	if soon {
		t.Until = l.lent.Clock + lentWhileUnsettled
	}
	if p.fences.urgent > 0 {
		t.Until = l.lent.Clock + lentWhilePending
	} else if len(p.fences.late) > 0 {
		t.Until = l.lent.Clock + lentWhilePending*uint64(max(p.fences.passing, 1))
	}
	if p.retired { // everything is asked here
		t.Until = 0
	}
	l.out = true
	l.to.Lend(&l.lent, t)
}
