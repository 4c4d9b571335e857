package pool

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// The device memory of closed regions serves a request for which no memory can be made: they move
// it out, and the request waits on the host until an event after the copy has completed. Other
// threads go on meanwhile.

// Large is from when on a request is large. The values that a program reads or logs between two
// steps are smaller, and PyTorch calls the same requests large.
const Large = mem.MiB

// Settle puts to sleep what has been copied out, and reports whether more copies are under way.
func (p *Pool) Settle() (leaving bool) {
	_, leaving = p.settleAll(nil)
	return leaving
}

// settleAll does so for all regions but one, and returns how much now sleeps.
func (p *Pool) settleAll(except *moved) (slept mem.Bytes, leaving bool) {
	var start time.Time // each request comes here: the clock is read, and handles, if need be
	for m := range p.lending(except) {
		if m.Copied() {
			if slept == 0 {
				start = time.Now()
			}
			p.refresh(m)
			n, err := p.settle(m)
			if slept += n; err != nil {
				p.warnOnce("memory of a region has not left", err)
			}
		}
		leaving = leaving || m.Copying()
	}
	if slept > 0 {
		p.time += time.Since(start)
		p.left = p.Clock.Now()
		p.applyLimit()
		if limit := p.mayHold(); limit > 0 && p.held() > limit { // it was lowered
			p.dropSpare()
		}
		p.traced(start, "region: left", "bytes", int64(slept))
	}
	return slept, leaving
}

// settle puts to sleep what of a region has been copied out. Its memory is kept for others.
func (p *Pool) settle(m *moved) (slept mem.Bytes, err error) {
	p.dev.Keep(true)
	p.aside(func() {
		if slept, err = m.Settle(); slept > 0 {
			_, leaving := p.out(nil)
			err = errors.Join(err, p.dev.Raise(leaving == 0))
		}
	})
	p.dev.Keep(false)
	p.rise()
	return slept, err
}

// makeRoom moves n bytes of closed regions out, of all but one, and waits for it. It returns false
// if they have nothing to give.
func (p *Pool) makeRoom(n mem.Bytes, except *moved) bool {
	if p.Host.Captures() > 0 {
		return false
	}
	p.roomAt = p.closings
	need := mem.RoundUp(n, mem.HandleSize)
	p.Log.Debug("regions make room", zap.Stringer("bytes", need))
	slept, _ := p.settleAll(except)
	_, leaving := p.out(except)
	p.leave(need-slept-leaving, except != nil, except)
	return slept+p.awaitOut(except, need-slept, math.MaxInt64) > 0
}

// leave begins to move n bytes of closed regions out, of all but one, and returns how much does.
// What leaves without a copy comes first, and then the region that was closed last: it is used
// again last. While a region is opened, others are about to be, and what is used soon stays: then
// only that counts.
func (p *Pool) leave(n mem.Bytes, opening bool, except *moved) (sent mem.Bytes) {
	if n <= 0 {
		return 0
	}
	copied := func(m *moved) int {
		if !opening && m.Clean() {
			return 0
		}
		return 1
	}
	for _, m := range slices.SortedFunc(p.lending(except), func(a, b *moved) int {
		return cmp.Or(cmp.Compare(copied(a), copied(b)), cmp.Compare(b.closed, a.closed))
	}) {
		if sent < n {
			p.refresh(m)
			sent += p.send(m, n-sent)
		}
	}
	return sent
}

// leaves returns how much more of all regions has to leave for what was short when m was closed;
// not above 0: nothing.
func (p *Pool) leaves(m *moved, more bool) mem.Bytes {
	away, leaving := p.out(nil)
	return m.need.Leaves(away, leaving, max(p.MostHeld()-p.reserved(), 0), more)
}

// Leave begins the copies out that are due.
func (p *Pool) Leave() {
	if p.Host.Captures() > 0 {
		return
	}
	for m := range p.lending(nil) {
		if m.due {
			start := time.Now()
			m.due = false
			sent := p.leave(p.leaves(m, false), true, nil)
			p.traced(start, "region: leaves", "bytes", int64(sent))
		}
	}
}

// awaitOut waits until need bytes of all regions but one sleep, no copy is under way, or that time
// has come. It returns how much went to sleep.
func (p *Pool) awaitOut(except *moved, need mem.Bytes, until time.Duration) (sum mem.Bytes) {
	for sum < need && p.Clock.Now() < until {
		slept, leaving := p.settleAll(except)
		if sum += slept; !leaving {
			break
		}
		if slept == 0 {
			p.aside(func() { p.Clock.Sleep(copyWait) })
		}
	}
	return sum
}

// copyWait is how long a thread sleeps between two checks of a copy that it waits for.
const copyWait = 50 * time.Microsecond

// longestRise is how long planned requests wait while nothing leaves: the work that copies wait for
// may itself wait for this thread.
const longestRise = 10 * time.Second

func (p *Pool) noteWanted() {
	wanted := p.wanted()
	for _, m := range p.moved {
		m.wanted = max(m.wanted, wanted)
	}
}

// wanted returns how much is held or away.
func (p *Pool) wanted() mem.Bytes {
	away, _ := p.out(nil)
	return p.reserved() + away
}

// means tells the policy to refuse a request that it cannot make memory for, while closed regions
// have some on the device: a wait for the device, or giving idle memory back, takes longer. While
// some is leaving, a request that may wait does so for its planned place, too.
func (p *Pool) means(wait bool) (m engine.Means) {
	if p.Host.Captures() > 0 {
		return 0
	}
	for r := range p.lending(nil) {
		if r.Away < r.All {
			m |= engine.MeansRoom
		}
		if wait && r.Leaving > 0 && p.Clock.Now() < p.left+longestRise {
			m |= engine.MeansRise
		}
	}
	return m
}

// afterRoom makes closed regions give up memory for a request that was refused, and reports whether
// it is tried again: the last time with all that the policy can do.
func (p *Pool) afterRoom(ev *engine.Event, err error) bool {
	refused := &engine.RefusedError{}
	if errors.As(err, &refused) && refused.Reason == engine.RefusedDevice {
		p.full = p.reserved()
	}
	if ev.Means == 0 {
		return false
	}
	start := time.Now()
	defer func() { p.traced(start, "region: a request waits", "bytes", int64(ev.Asked)) }()
	if refused.Reason == engine.RefusedResting { // no retry: there may be memory elsewhere
		ev.Means = p.means(p.awaitOut(nil, 1, p.left+longestRise) > 0)
		return true
	}
	p.waited = true
	idle := max(p.wanted()-p.policy.Stats().Load, 0)
	if p.makeRoom(max(ev.Asked-idle, leastRoom), nil) {
		ev.Means = p.means(ev.Means&engine.MeansRise != 0)
	} else {
		ev.Means = 0
	}
	return true
}

// leastRoom is how much regions give up at least: idle memory may lie so that it does not serve.
const leastRoom = 128 * mem.MiB

// send begins to move so much of a region out, and returns how much does. It may have to pin host
// memory, which takes long.
func (p *Pool) send(m *moved, n mem.Bytes) (sent mem.Bytes) {
	busy, err := p.busy(m.pool), error(nil)
	p.aside(func() { sent, err = m.Send(n, busy) })
	if sent > 0 {
		p.left = p.Clock.Now()
	}
	if err != nil {
		p.warnOnce("memory of a region cannot leave for the host, or not all that should", err)
	}
	return sent
}

// busy returns the handles of a region where freed blocks lie that other streams still use. The
// work that closed the region may come before theirs.
func (p *Pool) busy(region uint64) (handles []driver.Handle) {
	p.Poll()
	if p.policy.Stats().Pending == 0 {
		return nil
	}
	for b := range p.policy.Blocks() {
		if b.Pending && b.Pool == region {
			handles = append(handles, p.dev.Behind(b.Addr, b.Size)...)
		}
	}
	return handles
}

func (p *Pool) warnOnce(text string, err error) {
	if !p.warned[text] {
		p.warned[text] = true
		p.Log.Warn(text, zap.Error(err))
	}
}
