package actors

import (
	"fmt"
	"math"
	"sync/atomic"

	"stalloc/engine"
)

// Borrower is a Host with a quick case for the pool as well: between two messages
// to the pool's actor it has the engine's state to itself, and serves requests
// from free runs without a message (see engine.Lent). It must not serve a stream
// that has a tape, nor one whose first request the device has not seen.
type Borrower interface {
	// Lend gives the state away. When the engine's clock reaches until, the next
	// request or free is to be asked of the device.
	Lend(l *engine.Lent, until uint64)
	// TakeBack ends that: it waits for what is under way, which takes no longer than
	// a request, and tells the counters. False: an equation did not hold.
	TakeBack(c *engine.Counters) bool
}

// lender is a policy whose state can be lent.
type lender interface {
	Lend(l *engine.Lent) bool
	TakeBack(c *engine.Counters)
}

// loan is what the pool knows about its state being lent.
type loan struct {
	to      Borrower // nil: there is none
	from    lender
	open    func() bool // whether nobody needs to hear of each request
	traffic *atomic.Uint64
	lent    engine.Lent
	out     bool
}

// lentWhilePending is how many requests and frees the borrower may serve while
// memory waits for fences that the driver must be asked about. A view that waits for
// one is needed at the earliest by a request that comes as a message anyway.
const lentWhilePending = 8

// borrow has the pool lend its state to a host, if both are able to.
func (p *pool) borrow(host Host, open func() bool, traffic *atomic.Uint64) {
	to, can := host.(Borrower)
	from, has := p.eng.(lender)
	if can && has {
		p.loan = loan{to: to, from: from, open: open, traffic: traffic}
	}
}

// unwatched reports whether nobody needs to see each request: neither who looks
// for steps in them nor who compares them with an earlier run's.
func (d *Device) unwatched() bool {
	return d.auto.marked.Load() && !d.late.due.Load() && (d.opening == nil || d.opening.over.Load())
}

// takeBack returns how many requests and frees were served meanwhile.
func (p *pool) takeBack() int {
	l := &p.loan
	if !l.out {
		return 0
	}
	before := l.lent.Clock
	l.out = false
	whole := l.to.TakeBack(&l.lent.Counters)
	l.from.TakeBack(&l.lent.Counters)
	if !whole {
		p.broken = fmt.Errorf("%w: an equation did not hold in the quick case", ErrBroken)
	}
	served := l.lent.Clock - before
	l.traffic.Add(served)
	return int(served)
}

func (p *pool) lend() {
	l := &p.loan
	if l.to == nil || !l.open() || !l.from.Lend(&l.lent) {
		return
	}
	until := uint64(math.MaxUint64)
	if p.fences.urgent > 0 {
		until = l.lent.Clock + lentWhilePending
	} else if len(p.fences.late) > 0 {
		until = l.lent.Clock + lentWhilePending*uint64(max(p.fences.passing, 1))
	}
	l.out = true
	l.to.Lend(&l.lent, until)
}
