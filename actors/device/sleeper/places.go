package sleeper

import (
	"fmt"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func (d *Device) Map(addr mem.Addr, h driver.Handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, known := d.handles[h]
	if !known {
		return unknown("cuMemMap", h)
	}
	if !x.there && d.exceeds(x.size) {
		return &driver.Error{Call: "cuMemCreate", Code: driver.CodeOutOfMemory}
	}
	if err := d.fill(x); err != nil {
		return err
	}
	if err := d.Device.Map(addr, x.real); err != nil {
		return err
	}
	p := &place{of: x, mapped: true}
	d.places[addr], x.places[addr] = p, p
	return nil
}

// Bound limits what is awake: Map makes no memory for a sleeping handle beyond it, 0: no bound.
// Wake is not limited.
func (d *Device) Bound(most mem.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most = most
}

// exceeds reports whether more would be awake than Bound allows, with so much in addition.
func (d *Device) exceeds(more mem.Bytes) bool {
	for _, x := range d.handles {
		if x.there {
			more += x.size
		}
	}
	return d.most > 0 && more > d.most
}

func unknown(call string, h driver.Handle) error {
	const invalidValue = 1
	err := &driver.Error{Call: call, Code: invalidValue}
	return fmt.Errorf("%w: there is no handle %#x", err, uint64(h))
}

// fill gives a handle memory, unless it has some.
func (d *Device) fill(x *handle) (err error) {
	if x.there {
		return nil
	}
	if x.was != 0 { // it is mapped to memory of others
		if err := d.part(d.spotsOf(x)); err != nil {
			return err
		}
		d.forsake(x)
	}
	if x.real, err = d.take(x.size); err == nil {
		d.last++
		x.there, x.number, x.exported = true, d.last, false
		d.wakes(x)
	}
	return err
}

func (d *Device) Access(addr mem.Addr, size mem.Bytes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.each(addr, size, func(addr mem.Addr, size mem.Bytes) error {
		if err := d.Device.Access(addr, size); err != nil {
			return err
		}
		for at := addr; at < addr+mem.Addr(size); at += mem.Addr(mem.HandleSize) {
			if p := d.places[at]; p != nil {
				p.usable = true
			}
		}
		return nil
	})
}

func (d *Device) Unmap(addr mem.Addr, size mem.Bytes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.each(addr, size, func(addr mem.Addr, size mem.Bytes) error {
		if err := d.Device.Unmap(addr, size); err != nil {
			return err
		}
		d.forget(addr, size)
		return nil
	}, d.forget)
}

// each makes a call for a range: one for all of it if nothing is unmapped, else one for each mapped
// stretch; rest is called for each place that is not mapped.
func (d *Device) each(
	addr mem.Addr, size mem.Bytes,
	call func(mem.Addr, mem.Bytes) error, rest ...func(mem.Addr, mem.Bytes),
) error {
	if d.apart == 0 {
		return call(addr, size)
	}
	for end := addr + mem.Addr(size); addr < end; {
		p := d.places[addr]
		if p == nil || p.mapped {
			run := d.run(addr, end)
			if err := call(addr, run); err != nil {
				return err
			}
			addr += mem.Addr(run)
			continue
		}
		for _, do := range rest {
			do(addr, p.of.size)
		}
		addr += mem.Addr(p.of.size)
	}
	return nil
}

// run returns the length of the mapped stretch that begins at an address. Addresses that are not
// known here count as mapped: the driver refuses them.
func (d *Device) run(addr, end mem.Addr) mem.Bytes {
	at := addr
	for at < end {
		p := d.places[at]
		if p != nil && !p.mapped {
			break
		}
		if at += mem.Addr(mem.HandleSize); p != nil {
			at += mem.Addr(p.of.size - mem.HandleSize)
		}
	}
	return mem.Bytes(at - addr)
}

// forget drops the places of a range.
func (d *Device) forget(addr mem.Addr, size mem.Bytes) {
	for end := addr + mem.Addr(size); addr < end; addr += mem.Addr(mem.HandleSize) {
		p := d.places[addr]
		if p == nil {
			continue
		}
		if !p.mapped {
			d.apart--
		}
		delete(d.places, addr)
		delete(p.of.places, addr)
	}
}
