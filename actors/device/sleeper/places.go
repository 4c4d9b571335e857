package sleeper

import (
	"fmt"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Map implements device.Device.
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

// Bound has Map make nothing for what sleeps where more than most would be awake then, 0: no bound.
// Wake brings back what there was.
func (d *Device) Bound(most mem.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.most = most
}

// exceeds reports whether so much more would be awake than is to be.
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

// fill has a handle have memory.
func (d *Device) fill(x *handle) (err error) {
	if x.there {
		return nil
	}
	if x.was != 0 { // others have what it is mapped to
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

// Access implements device.Device.
func (d *Device) Access(addr mem.Addr, size mem.Bytes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.each(addr, size, d.Device.Access)
}

// Unmap implements device.Device.
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

// each makes a call for a range: at once where nothing sleeps, else for what is mapped of it, and
// another for the rest.
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

// run returns how far what is mapped goes from a place on. What nobody knows is the driver's to
// refuse.
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
