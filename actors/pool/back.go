package pool

import (
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// fetch brings n bytes back, at most `now` of them at this call. Idle memory makes way without a
// wait; memory that streams still work on does so at a later call. With must the caller waits for
// it, and other regions make way, too.
func (p *Pool) fetch(m *moved, n, now mem.Bytes, must bool) error {
	defer p.applyLimit()
	p.Log.Debug("a region comes back", zap.Stringer("bytes", n), zap.Bool("now", must),
		zap.Stringer("held", p.reserved()))
	ways := []func() bool{func() bool {
		return p.makesWay(engine.Event{Kind: engine.EvTrim, Rollback: true, Asked: n})
	}, func() bool { return p.makeRoom(n, m) }}
	for full := false; ; {
		room := n
		if limit := p.mayHold(); full {
			room = 0
		} else if limit > 0 {
			room = min(n, max(limit-p.reserved(), 0))
		}
		gave := room < n && p.lend(n-room, m.Unit())
		start := time.Now()
		var got mem.Bytes
		var err error
		p.aside(func() { got, err = m.Fetch(min(room, now)) })
		p.time += time.Since(start)
		p.traced(start, "region: comes back", "bytes", int64(got))
		full = (full || errors.Is(err, driver.ErrOutOfMemory)) && !gave
		n, now = n-got, now-got
		switch {
		case n <= 0 || now <= 0 || !gave && got == 0 && !must,
			err != nil && !errors.Is(err, driver.ErrOutOfMemory):
			return err
		case gave || got > 0:
		case p.Host.Captures() > 0: // since it waits; that thread may be waiting for this one
			return errors.Join(err, errOpenWhileCapturing)
		case p.policy.Lending() > 0 && p.order.Missing() == 0:
			p.aside(func() { p.Clock.Sleep(copyWait) })
		default:
			for len(ways) > 0 && !ways[0]() {
				ways = ways[1:]
			}
			if len(ways) == 0 {
				return errors.Join(err,
					&engine.RefusedError{Reason: engine.RefusedLimit, Limit: p.limit})
			}
			// The last until it gives nothing: others may take what it gave.
			ways, full = ways[min(1, len(ways)-1):], false
		}
	}
}

// lend makes n bytes of idle memory rest, or all there is, if it can in handles of unit bytes. Each
// handle rests once its stream has done what is queued now, at this call or a later one. lend
// reports whether some rests now.
func (p *Pool) lend(n, unit mem.Bytes) bool {
	return p.policy.Indexed() && p.Host.Captures() == 0 &&
		p.makesWay(engine.Event{Kind: engine.EvLend, Asked: n, Unit: unit})
}

// makesWay reports whether less is held after an event.
func (p *Pool) makesWay(ev engine.Event) bool {
	if p.state >= broken {
		return false
	}
	held := p.reserved()
	if _, err := p.run(ev); err != nil {
		p.warnOnce("idle memory does not make way for a region", err)
	}
	p.rise()
	return p.reserved() < held
}

// rise tells the engine which resting handles have their memory back.
func (p *Pool) rise() {
	risen := p.dev.Risen()
	if len(risen) == 0 || p.state >= broken {
		return
	}
	for i, h := range p.handles {
		if h == 0 || !slices.Contains(risen, h) {
			continue
		}
		if _, err := p.run(engine.Event{Kind: engine.EvRise, Handle: engine.Index(i)}); err != nil {
			p.warnOnce("memory is back that nobody had lent", err)
		}
	}
}

// aside does something slow without the lock, so that requests are served meanwhile: between two
// events of the engine, and nothing that they depend on.
func (p *Pool) aside(do func()) {
	p.Host.SetBudget(p.budget())
	p.Host.Unlock()
	defer p.Host.Lock()
	do()
}

// Prefetch brings back as much of a region as fits, at most `most` or a handle: see
// actors.Device.Prefetch.
func (p *Pool) Prefetch(region uint64, most mem.Bytes) error {
	m := p.moved[region]
	if !p.isClosed(region) || p.sleeps(region) || p.Host.Captures() > 0 {
		return nil
	}
	p.refresh(m)
	err := p.fetch(m, m.Away, max(most, p.Handle), false)
	if errors.Is(err, driver.ErrOutOfMemory) {
		return nil // the rest comes with its use
	}
	return err
}

// Lends reports whether a region was closed once, and was not forgotten since (forgetMoved).
func (p *Pool) Lends(region uint64) bool { return p.moved[region] != nil }

// Closed is what the mover needs to know of a closed region.
type Closed struct {
	Away, Leaving mem.Bytes // of it
	Out           mem.Bytes // away or leaving, of all regions
	Wanted        mem.Bytes // the most that was held or away, the last time that it was closed
	Due           bool      // more leaves with the next large request
}

// Closed returns how a region is; false: it is in use, or was never closed.
func (p *Pool) Closed(region uint64) (c Closed, closed bool) {
	m := p.moved[region]
	if m == nil || m.IsOpen() {
		return c, false
	}
	away, leaving := p.out(nil)
	return Closed{m.Away, m.Leaving, away + leaving, m.before, m.due}, true
}
