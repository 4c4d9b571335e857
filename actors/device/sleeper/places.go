package sleeper

import (
	"fmt"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func (d *Device) Map(addr mem.Addr, h driver.Handle) error {
	x, known := d.handles[h]
	if !known {
		return unknown("cuMemMap", h)
	}
	if x.memory == nil && d.exceeds(x.size) {
		return &driver.Error{Call: "cuMemCreate", Code: driver.CodeOutOfMemory}
	}
	if err := d.fill(x); err != nil {
		return err
	}
	if err := d.Device.Map(addr, x.memory.real); err != nil {
		return err
	}
	p := &place{of: x, at: addr, mapped: true}
	i, _ := slices.BinarySearchFunc(x.places, p, byAddr)
	d.places[addr], x.places = p, slices.Insert(x.places, i, p)
	return nil
}

// Bound limits what is awake: Map makes no memory for a sleeping handle beyond it, 0: no bound.
// Wake is not limited.
func (d *Device) Bound(n mem.Bytes) { d.bound = n }

// exceeds reports whether more would be awake than Bound allows, with so much in addition.
func (d *Device) exceeds(more mem.Bytes) bool {
	for _, x := range d.handles {
		if x.memory != nil {
			more += x.size
		}
	}
	return d.bound > 0 && more > d.bound
}

func unknown(call string, h driver.Handle) error {
	const invalidValue = 1
	err := &driver.Error{Call: call, Code: invalidValue}
	return fmt.Errorf("%w: there is no handle %#x", err, uint64(h))
}

// fill gives a handle memory, unless it has some.
func (d *Device) fill(x *handle) error {
	if x.memory != nil {
		return nil
	}
	if x.guest != nil {
		if err := d.part(x.places); err != nil {
			return err
		}
		x.dropGuest()
	}
	m, err := d.take(x.size)
	if err == nil {
		d.wakes(x, m)
	}
	return err
}

func (d *Device) Access(addr mem.Addr, size mem.Bytes) error {
	places, known := d.within(addr, size)
	if !known { // the driver refuses
		return d.Device.Access(addr, size)
	}
	return d.use(places)
}

func (d *Device) Unmap(addr mem.Addr, size mem.Bytes) error {
	places, known := d.within(addr, size)
	if !known {
		return d.Device.Unmap(addr, size)
	}
	err := d.part(places)
	for _, p := range places {
		if !p.mapped {
			delete(d.places, p.at)
			p.of.places = slices.DeleteFunc(p.of.places, func(x *place) bool { return x == p })
		}
	}
	return err
}

// within returns the places of a range. known: it consists of places, of at least one.
func (d *Device) within(addr mem.Addr, size mem.Bytes) (places []*place, known bool) {
	end := addr + mem.Addr(size)
	for addr < end && d.places[addr] != nil {
		p := d.places[addr]
		places = append(places, p)
		addr += mem.Addr(p.of.size)
	}
	return places, addr == end && len(places) > 0
}
