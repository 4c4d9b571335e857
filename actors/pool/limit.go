package pool

import (
	"errors"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Trim gives idle handles back to the driver; with a private pool's number, what that pool no
// longer uses.
func (p *Pool) Trim(private uint64) error {
	if private == 0 {
		p.Host.Note(schedule.EventOf(schedule.EventTrim, 0, 0, 0))
	}
	_, err := p.run(engine.Event{Kind: engine.EvTrim, Pool: private})
	if private == 0 {
		live := max(p.policy.Stats().Load-p.dev.Asleep(), 0) // at least, on the device
		err = errors.Join(err, p.trimRegions(), p.backups.Bound(live))
	}
	if p.state == retired { // nothing else comes that would try it again
		err = errors.Join(err, p.backups.Give())
	}
	return errors.Join(err, p.dev.DropSpare())
}

// SetLimit bounds the memory that is held of the driver to n bytes; 0: to what the device has.
func (p *Pool) SetLimit(n mem.Bytes) {
	p.limit = n
	p.applyLimit()
	p.dropSpare()
}

// mayHold returns how much may be held of the driver, 0: what it gives.
func (p *Pool) mayHold() mem.Bytes {
	if p.limit > 0 && (p.cap == 0 || p.limit < p.cap) {
		return p.limit
	}
	return p.cap
}

// MostHeld returns how much memory may be held, 0 if that is not known. If the driver has refused
// more, it is what was held then, or at most since.
func (p *Pool) MostHeld() mem.Bytes {
	limit := p.mayHold()
	if p.full == 0 {
		return limit
	}
	p.full = max(p.full, p.reserved())
	if limit == 0 {
		return p.full
	}
	return min(p.full, limit)
}

// applyLimit tells the policy how much it may hold. The policy counts handles that sleep or rest,
// too, though they have no memory.
func (p *Pool) applyLimit() {
	limit := p.mayHold()
	p.dev.Bound(limit)
	if limit > 0 {
		limit += p.dev.Asleep() + p.dev.Resting()
	}
	p.policy.SetLimit(limit)
}

// dropSpare releases spare memory, which is held for the next handle of its size.
func (p *Pool) dropSpare() {
	if err := p.dev.DropSpare(); err != nil {
		p.warnOnce("the driver has not taken memory back that nobody has", err)
	}
}

// trimRegions gives back what is idle of regions, and of other private pools that no graph uses.
func (p *Pool) trimRegions() (err error) {
	if len(p.policy.Regions()) > 0 {
		_, err = p.run(engine.Event{Kind: engine.EvTrim, Pool: engine.Regions})
	}
	p.forgetMoved()
	return err
}

// forgetMoved gives the backups of regions up that have no device memory any more. One that is in
// use stays known: its use is not over.
func (p *Pool) forgetMoved() {
	held := p.policy.Regions()
	err := p.backups.Give() // what could not be given back before
	for _, m := range p.moved {
		if !held[m.pool] && !p.sleeps(m.pool) {
			err = errors.Join(err, m.Drop())
			if m.uses == 0 {
				delete(p.moved, m.pool)
			}
		}
	}
	if err != nil {
		p.warnOnce("memory of the host was not given back", err)
	}
}
