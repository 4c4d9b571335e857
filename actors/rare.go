package actors

import (
	"errors"
	"fmt"
	"math"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// rare has the pool do something, or something else where it is broken.
func (d *Device) rare(do, broken func(*pool) error) error {
	m := &order[*pool]{do: do, broken: broken}
	d.ask(d.pool, m)
	return m.err
}

// ignored is what a broken pool does where there is nothing to be done.
func ignored(*pool) error { return nil }

// Find returns the start and size of the block that contains addr.
func (d *Device) Find(addr mem.Addr) (at mem.Addr, size mem.Bytes, err error) {
	find := func(p *pool) error {
		b, ok := p.eng.Lookup(addr)
		if !ok {
			b, ok = p.eng.Within(addr)
		}
		if !ok || b.Pending {
			return ErrUnknown
		}
		at, size = b.Addr, b.Size
		return nil
	}
	err = d.rare(find, find)
	return at, size, err
}

// Trim gives idle handles back to the driver; with a private pool's number, what
// that pool no longer uses.
func (d *Device) Trim(private uint64) error {
	return d.rare(func(p *pool) error {
		if private == 0 {
			p.host.Note(schedule.EventOf(schedule.EventTrim, 0, 0, 0))
		}
		p.poll(math.MaxInt) // what other streams are done with is cached, too
		_, err := p.run(engine.Event{Kind: engine.EvTrim, Pool: private})
		if private == 0 {
			err = errors.Join(err, p.trimRegions())
		}
		return err
	}, ignored)
}

var errNoSuchLimit = errors.New("a memory fraction lies between 0 and 1")

// Limit bounds the physical memory taken to a fraction of the device's; of 0 no more is.
func (d *Device) Limit(fraction float64) error {
	if !(fraction >= 0 && fraction <= 1) {
		return errNoSuchLimit
	}
	_, total, err := d.dev.Memory()
	if err != nil {
		return err
	}
	limit := mem.Bytes(0)
	if fraction < 1 {
		limit = max(mem.Bytes(fraction*float64(total)), 1) // 0: no limit
	}
	return d.rare(func(p *pool) error {
		p.limit = limit
		p.bound()
		return nil
	}, ignored)
}

// mayHold returns how much may be held of the driver, 0: what it gives.
func (p *pool) mayHold() mem.Bytes {
	if p.limit > 0 && (p.most == 0 || p.limit < p.most) {
		return p.limit
	}
	return p.most
}

// bound tells the engine how much it may hold. What sleeps is held there, and takes nothing.
func (p *pool) bound() {
	limit := p.mayHold()
	p.dev.Bound(limit)
	if limit > 0 {
		limit += p.dev.Asleep()
	}
	p.eng.SetLimit(limit)
}

// Share lets another device of the process, by its ordinal, use all memory of this
// one, what is in use now included: copies from one to the other, and kernels that
// read across. On an error nothing changes for the program but that they fail.
func (d *Device) Share(peer int) error {
	return d.rare(func(p *pool) error { return p.share(peer) }, nil)
}

// ResetPeak lets PeakReserved start over from what is reserved now.
func (d *Device) ResetPeak() error {
	return d.rare(func(p *pool) error {
		p.peak = p.reserved()
		return nil
	}, ignored)
}

// Check recounts the engine's state.
func (d *Device) Check() error { return d.rare(func(p *pool) error { return p.eng.Check() }, nil) }

// endStep ends a step of the engine, and returns what the planner is to know of it.
func (p *pool) endStep() (*stepEnded, error) {
	if p.sleeps(0) { // what a boundary would do to memory can wait
		return nil, nil
	}
	p.poll(math.MaxInt)
	p.patience.endStep(p.clock.Now())
	_, err := p.run(engine.Event{Kind: engine.EvBoundary})
	if p.ranged == nil {
		return nil, err
	}
	return p.observed(), err
}

func (p *pool) stats() PoolStats {
	s := p.eng.Stats()
	return PoolStats{
		Reserved: p.reserved(), Asleep: p.dev.Asleep(), Backup: p.kept(), PeakReserved: p.peak, Load: s.Load - p.gone, Pending: s.Pending,
		DriverCalls: p.calls, DriverTime: p.time, Retries: p.retries.Load(), Engine: s,
		Late: p.fences.missing(), Waits: p.patience.counts,
	}
}

// close gives everything back, live blocks included, and that also if the policy does not know
// any more what it has: the device knows what is mapped (package sleeper). No pending
// work may use that memory.
func (p *pool) close() error {
	p.broken = fmt.Errorf("%w: the device was closed", ErrBroken)
	p.giving.Wait()
	p.lets(func(uint64) bool { return false })
	var errs []error
	for at, size := range p.dev.Mapped() {
		errs = append(errs, p.dev.Unmap(at, size))
	}
	for _, h := range p.handles {
		if h != 0 {
			errs = append(errs, p.dev.Release(h))
		}
	}
	return errors.Join(append(errs, p.drop(p.asleep), p.dev.Unreserve(p.base, p.window),
		p.dev.Close())...)
}
