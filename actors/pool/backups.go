package pool

import (
	"errors"

	"stalloc/internal/mem"
)

// backup returns what is kept on the host: of what sleeps, of regions that were closed as long as
// they have device memory, and what could not be given back there.
func (p *Pool) backup() mem.Bytes {
	n := p.backups.Stuck()
	for _, x := range p.asleep {
		n += x.Kept()
	}
	for _, m := range p.moved {
		n += m.Backup()
	}
	return n
}

// lent returns what is away of closed regions that no pause has put to sleep.
func (p *Pool) lent() (n mem.Bytes) {
	for m := range p.lending(nil) {
		n += m.Away
	}
	return n
}

// forgetMoved gives the backups of regions up that have no device memory any more.
func (p *Pool) forgetMoved() {
	held := p.policy.Regions()
	err := p.backups.Give() // what could not be given back before
	for _, m := range p.moved {
		if !held[m.pool] && !p.sleeps(m.pool) {
			err = errors.Join(err, m.Drop())
			delete(p.moved, m.pool)
		}
	}
	if err != nil {
		p.sayAway("memory of the host was not given back", err)
	}
}

// closeLink gives the copy streams of a retired device back, once all regions are on the device.
func (p *Pool) closeLink() error {
	if away, leaving := p.out(nil); away+leaving > 0 || p.Host.Captures() > 0 {
		return nil
	}
	return p.link.Close()
}
