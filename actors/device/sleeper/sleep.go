package sleeper

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

func byAddr(a, b *place) int { return cmp.Compare(a.at, b.at) }

// those returns the places for which is holds, by address.
func those(places []*place, is func(*place) bool) (some []*place) {
	for _, p := range places {
		if is(p) {
			some = append(some, p)
		}
	}
	slices.SortFunc(some, byAddr)
	return slices.Compact(some)
}

func isMapped(p *place) bool { return p.mapped }

// placesOf returns the places of handles that may sleep.
func (d *Device) placesOf(handles []driver.Handle) (places []*place) {
	for _, h := range handles {
		if x := d.handles[h]; x != nil && x.shares == 0 && x.guest == nil {
			places = append(places, x.places...)
		}
	}
	return places
}

// runs makes a call for each stretch of neighbouring places, until one fails.
func runs(places []*place, call func(at mem.Addr, size mem.Bytes, run []*place) error) error {
	for len(places) > 0 {
		n, size := 0, mem.Bytes(0)
		for n < len(places) && places[n].at == places[0].at+mem.Addr(size) {
			size += places[n].of.size
			n++
		}
		if err := call(places[0].at, size, places[:n]); err != nil {
			return err
		}
		places = places[n:]
	}
	return nil
}

// Mapped returns what is mapped, neighbouring places joined: where it begins, and how much it is.
func (d *Device) Mapped() map[mem.Addr]mem.Bytes {
	all := map[mem.Addr]mem.Bytes{}
	mapped := those(slices.Collect(maps.Values(d.places)), isMapped)
	_ = runs(mapped, func(at mem.Addr, size mem.Bytes, _ []*place) error {
		all[at] = size
		return nil
	})
	return all
}

// part unmaps places that are mapped. The memory of their handles stays as it is.
func (d *Device) part(places []*place) error {
	return runs(those(places, isMapped), func(at mem.Addr, size mem.Bytes, run []*place) error {
		if err := d.Device.Unmap(at, size); err != nil {
			return err
		}
		for _, p := range run {
			p.mapped, p.usable = false, false
		}
		return nil
	})
}

// join maps the places of handles that have memory, unless they are mapped, and makes them usable.
// It leaves out handles that sleep: the driver may use the values of theirs for other memory.
func (d *Device) join(places []*place) error {
	there := those(places, func(p *place) bool { return p.of.memory != nil })
	for _, p := range there {
		if p.mapped {
			continue
		}
		if err := d.Device.Map(p.at, p.of.memory.real); err != nil {
			return err
		}
		p.mapped = true
	}
	return d.use(there)
}

func (d *Device) use(places []*place) error {
	return runs(those(places, isMapped), func(at mem.Addr, size mem.Bytes, run []*place) error {
		if err := d.Device.Access(at, size); err != nil {
			return err
		}
		for _, p := range run {
			p.usable = true
		}
		return nil
	})
}

// Sleep gives the memory of handles back to the driver. No pending work may use it, and its
// contents are gone. It reports whether they sleep. If they do, and there is an error, not all
// memory has gone back, or some places are not mapped: Sleep or Wake does the rest. If they do not,
// nothing has changed.
func (d *Device) Sleep(handles []driver.Handle) (asleep bool, err error) {
	places := d.placesOf(handles)
	if err := d.part(places); err != nil {
		undone := d.join(places) // whose handles still have their memory
		return undone != nil, errors.Join(err, undone)
	}
	var there []*handle
	for _, h := range handles {
		if x := d.handles[h]; x != nil && x.memory != nil && x.shares == 0 {
			there = append(there, x)
		}
	}
	return true, d.empty(there)
}

// Wake makes memory for handles that sleep, and maps it where it was: all of it or, with an error,
// none, so far as the driver lets that be undone. Its contents are undefined. A handle that Map has
// woken meanwhile is mapped at its other places, too.
func (d *Device) Wake(handles []driver.Handle) error {
	return d.WakeBefore(math.MaxUint64, handles)
}

// WakeBefore is Wake for the places before an address alone.
func (d *Device) WakeBefore(end mem.Addr, handles []driver.Handle) error {
	var made []*handle
	places := d.placesOf(handles)
	for _, p := range d.places { // left by calls that have failed
		if p.of.memory != nil && !p.mapped {
			places = append(places, p)
		}
	}
	places = those(places, func(p *place) bool { return p.at < end && !p.usable })
	apart := those(places, func(p *place) bool { return !p.mapped })
	err := func() error {
		for _, h := range handles {
			x := d.handles[h]
			if x == nil || x.memory != nil || x.guest != nil || !x.begins(end) {
				continue
			}
			if err := d.fill(x); err != nil {
				return err
			}
			made = append(made, x)
		}
		return d.join(places)
	}()
	if err == nil {
		return nil
	}
	undone := d.part(apart)
	if undone != nil { // what is mapped keeps its memory
		return errors.Join(err, undone)
	}
	return errors.Join(err, d.empty(made))
}

// begins reports whether a handle has a place before an address, or none at all.
func (x *handle) begins(end mem.Addr) bool { return len(x.places) == 0 || x.places[0].at < end }

// empty releases the memory of handles that are mapped nowhere.
func (d *Device) empty(handles []*handle) error {
	var errs []error
	for _, x := range handles {
		if err := d.giveUp(x); err != nil {
			errs = append(errs, err)
			continue
		}
		d.asleep += x.size
	}
	return errors.Join(errs...)
}

// Place returns the first place of a handle, and its size, 0 if there is no such handle. No place
// is returned of one that Export keeps awake.
func (d *Device) Place(h driver.Handle) (at mem.Addr, size mem.Bytes, has bool) {
	x := d.handles[h]
	if x == nil {
		return 0, 0, false
	}
	if len(x.places) > 0 && x.shares == 0 {
		at, has = x.places[0].at, true
	}
	return at, x.size, has
}

// Places returns where handles that may sleep are, or will be, mapped.
func (d *Device) Places(handles []driver.Handle) (at []mem.Addr) {
	for _, p := range d.placesOf(handles) {
		at = append(at, p.at)
	}
	slices.Sort(at)
	return at
}

// Behind returns the handles that a range lies in, every byte of which has a place.
func (d *Device) Behind(addr mem.Addr, size mem.Bytes) (handles []driver.Handle) {
	for _, s := range d.behind(addr, size) {
		handles = append(handles, s.of.name)
	}
	return handles
}

// Home says which place of a handle stays mapped until the device has been waited for.
func (d *Device) Home(h driver.Handle, at mem.Addr) {
	if x := d.handles[h]; x != nil {
		x.home = at
	}
}

// Usable returns a place of a handle that work can use, its home or else the first: where a call of
// the driver has failed some are mapped without access, or not at all.
func (d *Device) Usable(h driver.Handle) (at mem.Addr, has bool) {
	x := d.handles[h]
	if x == nil || x.memory == nil {
		return 0, false
	}
	usable := func(p *place) bool { return p.mapped && p.usable }
	if p := d.places[x.home]; p != nil && p.of == x && usable(p) {
		return x.home, true
	}
	i := slices.IndexFunc(x.places, usable)
	if i < 0 {
		return 0, false
	}
	return x.places[i].at, true
}
