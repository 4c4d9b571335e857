package pool

import (
	"errors"
	"slices"

	"stalloc/internal/mem"
)

// What regions that come and go keep on the host: it stays as long as they have memory.

// mirrored returns what is kept on the host for regions that come and go.
func (p *Pool) mirrored() (n mem.Bytes) {
	for _, m := range p.moved {
		n += m.Mirror()
	}
	for _, m := range p.dropped {
		n += m.Mirror()
	}
	return n
}

// forgetMoved gives up the mirrors of regions that have no memory any more.
func (p *Pool) forgetMoved() {
	for region, m := range p.moved {
		if _, has := p.regions[region]; !has {
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

// dropAway gives up what regions have on the host.
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
