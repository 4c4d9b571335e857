package pool

import (
	"math"
	"slices"
	"time"

	"stalloc/engine"
	"stalloc/internal/mem"
)

// patience is how long requests wait for blocks that other streams are about to be done with,
// rather than have memory made that the program then keeps (decision 27).
//
// The host queues work ahead of the device. While it is ahead, a wait costs nothing: the device
// goes on with what is queued. How far ahead it is tell marks: fences that nothing waits for,
// after the work of streams whose requests lack memory.
//
//	host    ····m····m····m····m····m| waits      m: marks on the stream of the request
//	device            ^ here                      lag: how long a mark took to pass
//	                               ^ a wait ends here at the latest: a quarter of the lag is left
//
// What is awaited may itself await this thread: another rank's message that is only sent once this
// one has gone on. Then no mark passes. So a wait ends when none has for the lag, all waits of a
// step take no longer than the step before, and after one of which a hundredth went in vain they
// rest, ever longer.
type patience struct {
	// of the last mark that passed, or of one that has not yet; 0: nothing is known
	lag         time.Duration
	put         time.Duration // when the last mark was
	began, took time.Duration // the step, and the one before
	spent, vain time.Duration // in this step: waiting, and of that while the device stood still
	lends       int           // in this step: streams that were asked to lend, and were at work
	failed      int           // steps in a row that have waited in vain for too long
	rest        int           // steps until the next wait
	counts      WaitStats
}

// WaitStats counts waits for other streams that were to save memory.
type WaitStats struct {
	Waits uint64
	Vain  uint64 // of them, in which the device came no further
	Time  time.Duration
}

const (
	leastMark    = time.Millisecond       // between two marks
	PollInterval = 200 * time.Microsecond // between two looks of one that waits
	// that long a fence takes on a stream that has nothing to do
	atOnce      = 10 * time.Microsecond
	dear        = 100 // that part of a step in vain is too long
	spare       = 4   // a wait leaves that part of the lag
	longestRest = 9   // doublings of the steps that waits rest
)

// allocate asks the policy. Where the bytes that are best wait for fences that
// may have passed, it asks the driver first, and where memory would have to be made, it may wait.
func (p *Pool) allocate(m *Request) (engine.Op, error) {
	before := p.policy.Reserved()
	ev := engine.Event{Kind: engine.EvAlloc, Req: 1, Size: m.Size, Stream: m.Stream, Pool: m.Private,
		Planned: m.Planned}
	ev.Poll = p.policy.Indexed() && p.fences.n+p.fences.lateAll > 0
	ev.Lend = p.mayBorrow(m)
	grant, err := p.run(ev)
	lenders := p.borrows(m)
	if isRefused(err, engine.RefusedPending) {
		p.look(lenders)
		ev.Poll, ev.Wait = false, !p.waitsOff && p.patient(m)
		grant, err = p.run(ev)
		p.patience.lends += len(p.borrows(m))
	}
	if m.Again = isRefused(err, engine.RefusedPending); m.Again {
		m.wait.waited = true
		return engine.Op{}, nil
	}
	p.waitedFor(m, err == nil && p.policy.Reserved() > before)
	return grant, err
}

// mark puts a mark on the stream of a request while memory waits for other streams.
func (p *Pool) mark(id mem.StreamID) {
	w := &p.patience
	if now := p.Clock.Now(); p.policy.Indexed() && p.fences.n > 0 && p.Host.Pools() == 0 &&
		now-w.put >= max(leastMark, w.lag/(4*spare)) {
		w.put = now
		_ = p.record(id)
	}
}

// mayBorrow reports whether other streams may lend memory for a request that has not waited yet.
func (p *Pool) mayBorrow(m *Request) bool {
	w := &p.patience
	return p.policy.Indexed() && !p.waitsOff && !m.CannotWait && !m.wait.waited && m.Private == 0 && w.rest == 0 &&
		p.Host.Pools() == 0 &&
		time.Duration(w.lends)*dear*PollInterval <= w.length(p.Clock.Now())
}

// borrows notes which streams lend memory for a request, if the engine has asked any, and returns
// those that it has asked now.
func (p *Pool) borrows(m *Request) []mem.StreamID {
	asked := len(m.wait.lenders)
	for _, op := range p.ops {
		if op.Kind == engine.OpRecord {
			m.wait.lenders = append(m.wait.lenders, op.Stream)
			m.wait.from, m.wait.stalled = p.Clock.Now(), true
		}
	}
	return m.wait.lenders[asked:]
}

// look asks the driver about fences for a request. Streams that lend memory for it and have nothing
// to do pass theirs at once, which is no wait.
func (p *Pool) look(lenders []mem.StreamID) {
	if len(lenders) > 0 {
		p.Clock.Sleep(atOnce)
	}
	if p.poll(math.MaxInt); p.atWork(lenders) {
		p.patience.lends += len(lenders)
	}
}

// atWork reports whether a fence has not passed on one of some streams, or is not there yet.
func (p *Pool) atWork(ids []mem.StreamID) bool {
	_, behind := p.fences.oldest(ids...)
	late := func(id mem.StreamID) bool { return len(p.fences.late[id]) > 0 }
	return behind || slices.ContainsFunc(ids, late)
}

// patient reports whether a request may wait, or wait on.
func (p *Pool) patient(m *Request) bool {
	w, now, lent := &p.patience, p.Clock.Now(), len(m.wait.lenders) > 0
	at, behind := p.fences.oldest(m.Stream)
	if lent {
		at, behind = p.fences.oldest(m.wait.lenders...)
	}
	if m.CannotWait || !behind || w.rest > 0 || m.Private != 0 || p.Host.Pools() > 0 {
		return false
	}
	if !lent {
		w.lag = max(w.lag, now-at) // it has not passed yet
	}
	if !m.wait.waited {
		m.wait.from, m.wait.stalled = now, true
	}
	if !m.wait.waited || at > m.wait.mark {
		m.wait.stalled = m.wait.stalled && !m.wait.waited
		m.wait.mark, m.wait.until = at, now+w.lag
	}
	return (lent || now < m.wait.until && at <= m.wait.from-w.lag/spare) &&
		w.spent+now-m.wait.from < w.length(m.wait.from)
}

// length returns how long a step takes: the last one, or this one so far.
func (w *patience) length(now time.Duration) time.Duration {
	return max(w.took,
		now-w.began-w.spent)
}

// waitedFor ends a wait, if there was one: forced, had memory to be made all the same.
func (p *Pool) waitedFor(m *Request, forced bool) {
	w := &p.patience
	if !m.wait.waited || m.CannotWait {
		return
	}
	took := p.Clock.Now() - m.wait.from
	w.spent += took
	w.counts.Time += took
	if w.counts.Waits++; forced && m.wait.stalled {
		w.counts.Vain++
		w.vain += took
	}
}

// endStep begins a step. After one that has waited in vain for too long waits rest.
func (w *patience) endStep(now time.Duration) {
	w.took, w.began = now-w.began, now
	switch {
	case w.rest > 0:
		w.rest--
	case w.vain > w.took/dear:
		w.failed++
		if w.failed > 1 { // the first time may be communication that starts
			w.rest = 1 << min(2*(w.failed-1), longestRest)
		}
	case w.spent > 0:
		w.failed = 0
	}
	w.spent, w.vain, w.lends = 0, 0, 0
}
