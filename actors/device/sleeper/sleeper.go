// Package sleeper is a device whose memory can sleep: it is given back to the driver while its
// callers keep handles and addresses, and is made again at the same addresses.
//
//	awake     addresses ── place ── handle ── memory of the driver
//	asleep    addresses    place    handle                          Sleep unmaps, then releases
//	awake     addresses ── place ── handle ── other memory          Wake makes, then maps
//
// Handles are numbers of its own, since those of the driver end with their memory. Between Sleep
// and Wake the calls of device.Device mean the same to their caller. But unmapping or releasing
// what sleeps only changes the books, and mapping it at one more place makes memory for it.
//
// A handle that rests is asleep for its caller, too, but stays mapped while another has its memory
// (spare.go).
//
// The books tell what the driver has done, whichever of its calls failed. So Sleep and Wake may be
// tried again, and do what is left.
//
// It is for one thread at a time: only the pool actor has it.
package sleeper

import (
	"stalloc/actors/device"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Device is a device that can sleep.
type Device struct {
	device.Device
	last    driver.Handle // its name
	made    driver.Handle // the number of the last memory
	handles map[driver.Handle]*handle
	places  map[mem.Addr]*place // by where they begin
	imports map[mem.Addr]mem.Bytes
	asleep  mem.Bytes // of handles without memory
	bound   mem.Bytes // see Bound
	spare   spare
}

type handle struct {
	name   driver.Handle
	size   mem.Bytes
	memory *memory // nil while it sleeps or rests
	guest  *memory // of others, that its places are mapped to; nil: none
	rests  bool
	places []*place // by address
	home   mem.Addr // the place where copies are best, 0: any
	shares int      // exported ranges that lie in it: it stays awake
}

type place struct {
	of     *handle
	at     mem.Addr
	mapped bool
	usable bool // access was given since it was mapped
}

// New wraps a device in which nothing is mapped.
func New(d device.Device) *Device {
	return &Device{Device: d, handles: map[driver.Handle]*handle{}, places: map[mem.Addr]*place{},
		imports: map[mem.Addr]mem.Bytes{}}
}

// Asleep returns how much memory the handles that sleep had.
func (d *Device) Asleep() mem.Bytes { return d.asleep }

// Size returns what handles have, asleep or not, and how much of it sleeps.
func (d *Device) Size(handles []driver.Handle) (sum, asleep mem.Bytes) {
	for _, h := range handles {
		x := d.handles[h]
		if sum += x.size; x.memory == nil {
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

func (d *Device) Create(size mem.Bytes) (driver.Handle, error) {
	m, err := d.take(size)
	if err != nil {
		return 0, err
	}
	d.last++
	d.handles[d.last] = &handle{name: d.last, memory: m, size: size}
	return d.last, nil
}

func (d *Device) Release(h driver.Handle) error {
	x, known := d.handles[h]
	if !known {
		return unknown("cuMemRelease", h)
	}
	if x.memory == nil {
		d.wakes(x, nil)
	} else if err := d.giveUp(x); err != nil {
		return err
	}
	delete(d.handles, h)
	return nil
}
