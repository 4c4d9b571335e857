package pool

import (
	"errors"
	"slices"

	"stalloc/internal/mem"
)

// The host memory of regions that were closed: it is kept as long as they have device memory.

// mirrored returns how much host memory is kept for regions.
func (p *Pool) mirrored() (n mem.Bytes) {
	for _, m := range p.moved {
		n += m.Mirror()
	}
	for _, m := range p.dropped {
		n += m.Mirror()
	}
	return n
}

// lent returns what is away of closed regions that no pause has put to sleep.
func (p *Pool) lent() (n mem.Bytes) {
	for region, m := range p.moved {
		if _, out, _ := m.Size(); !p.sleeps(region) {
			n += out
		}
	}
	return n
}

// forgetMoved frees the mirrors of regions that have no device memory any more.
func (p *Pool) forgetMoved() {
	if len(p.moved)+len(p.dropped) == 0 {
		return
	}
	held := p.policy.Regions()
	for region, m := range p.moved {
		if !held[region] && !p.sleeps(region) {
			p.dropped = append(p.dropped, m)
			delete(p.moved, region)
		}
	}
	p.dropped = slices.DeleteFunc(p.dropped, func(m *moved) bool {
		err := m.Drop()
		if err != nil {
			p.sayAway("memory of the host was not given back", err)
		}
		return err == nil
	})
}

// closeLink gives the copy streams of a retired device back, once all regions are on the device.
func (p *Pool) closeLink() error {
	away := mem.Bytes(0)
	for _, m := range p.moved {
		_, out, leaving := m.Size()
		away += out + leaving
	}
	if p.link == nil || away > 0 || p.Host.Captures() > 0 {
		return nil
	}
	return p.link.Close()
}

// dropAway frees all host memory of regions.
func (p *Pool) dropAway() error {
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
		p.link = nil
	}
	for _, m := range p.moved {
		errs = append(errs, m.Drop())
	}
	for _, m := range p.dropped {
		errs = append(errs, m.Drop())
	}
	clear(p.moved)
	return errors.Join(errs...)
}
