// Package sleeper is a device whose memory can sleep: it is given back to the driver, while its
// handles and addresses stay with whoever has them, and made anew where it was.
//
//	awake     addresses ── place ── handle ── memory of the driver
//	asleep    addresses    place    handle                          Sleep unmaps, then releases
//	awake     addresses ── place ── handle ── other memory          Wake makes, then maps
//
// Handles are numbers of its own, since those of the driver end with their memory. Between Sleep
// and Wake the calls of device.Device mean what they mean to their caller, and the driver is told
// what is left of it: unmapping or releasing what sleeps is a matter of the books alone, and memory
// that is mapped at one more place is made for that.
//
// Every book tells what the driver has done, whichever call of it failed. So Sleep and Wake may be
// tried again, and do what is left.
package sleeper

import (
	"fmt"
	"sync"

	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Device is a device that can sleep.
type Device struct {
	device.Device
	mu      sync.Mutex
	last    driver.Handle
	handles map[driver.Handle]*handle
	places  map[mem.Addr]*place // by where they begin
	imports map[mem.Addr]mem.Bytes
	apart   int       // places that are not mapped
	asleep  mem.Bytes // of handles without memory
	most    mem.Bytes // see Bound
	spare   spare
}

type handle struct {
	name   driver.Handle
	real   driver.Handle // of the wrapped device; 0 while it sleeps
	was    driver.Handle // while it rests: what its places are mapped to
	rests  bool
	there  bool // it has one
	size   mem.Bytes
	places map[mem.Addr]*place
	number driver.Handle // of its memory now: other memory has another one
	// other processes may have its memory
	exported bool
	shares   int // exported ranges that lie in it: it stays awake
}

type place struct {
	of     *handle
	mapped bool
}

// New wraps a device in which nothing is mapped.
func New(d device.Device) *Device {
	return &Device{Device: d, handles: map[driver.Handle]*handle{}, places: map[mem.Addr]*place{},
		imports: map[mem.Addr]mem.Bytes{},
		spare: spare{bySize: map[mem.Bytes][]driver.Handle{},
			rests: map[driver.Handle]*handle{}}}
}

// Asleep returns how much memory the handles that sleep had.
func (d *Device) Asleep() mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asleep
}

// Size returns what handles have, asleep or not, and how much of it sleeps.
func (d *Device) Size(handles []driver.Handle) (sum, asleep mem.Bytes) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range handles {
		x := d.handles[h]
		if sum += x.size; !x.there {
			asleep += x.size
		}
	}
	return sum, asleep
}

// EnablePeers implements device.Sharer as far as the wrapped device does. What sleeps gets its
// peers when it wakes.
func (d *Device) EnablePeers(ordinals ...int) error {
	if s, ok := d.Device.(device.Sharer); ok {
		return s.EnablePeers(ordinals...)
	}
	return device.ErrAlone
}

// Create implements device.Device.
func (d *Device) Create(size mem.Bytes) (driver.Handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	real, err := d.take(size)
	if err != nil {
		return 0, err
	}
	d.last++
	d.handles[d.last] = &handle{name: d.last, real: real, there: true, size: size, places: map[mem.Addr]*place{},
		number: d.last}
	return d.last, nil
}

// Release implements device.Device.
func (d *Device) Release(h driver.Handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	x, known := d.handles[h]
	if !known {
		return unknown("cuMemRelease", h)
	}
	if x.there {
		if err := d.giveUp(x); err != nil {
			return err
		}
		x.there, x.real = false, 0
	} else {
		d.wakes(x)
		d.forsake(x)
	}
	delete(d.handles, h)
	return nil
}

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
