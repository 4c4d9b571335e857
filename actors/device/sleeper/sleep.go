package sleeper

import (
	"cmp"
	"errors"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// spot is a place and where it is.
type spot struct {
	*place
	at mem.Addr
}

// spots returns the places of handles by address.
func (d *Device) spots(handles []driver.Handle) (spots []spot) {
	for _, h := range handles {
		if x := d.handles[h]; x != nil && x.shares == 0 && x.was == 0 {
			spots = append(spots, d.spotsOf(x)...)
		}
	}
	slices.SortFunc(spots, spot.compare)
	return spots
}

// spotsOf returns the places of one handle by address.
func (d *Device) spotsOf(x *handle) (spots []spot) {
	for at, p := range x.places {
		spots = append(spots, spot{p, at})
	}
	slices.SortFunc(spots, spot.compare)
	return spots
}

// withLeft adds the places where handles that are awake are not mapped.
func (d *Device) withLeft(spots []spot) []spot {
	for at, p := range d.places {
		if p.of.there && !p.mapped {
			spots = append(spots, spot{p, at})
		}
	}
	slices.SortFunc(spots, spot.compare)
	return slices.Compact(spots)
}

func (s spot) compare(than spot) int { return cmp.Compare(s.at, than.at) }
func (s spot) isApart() bool         { return !s.mapped }
func (s spot) isMapped() bool        { return s.mapped }

// runs makes a call for each stretch of neighbouring spots, until one fails: the driver takes long
// for each call, whatever it covers.
func runs(spots []spot, call func(at mem.Addr, size mem.Bytes, run []spot) error) error {
	for len(spots) > 0 {
		n, size := 0, mem.Bytes(0)
		for n < len(spots) && spots[n].at == spots[0].at+mem.Addr(size) {
			size += spots[n].of.size
			n++
		}
		if err := call(spots[0].at, size, spots[:n]); err != nil {
			return err
		}
		spots = spots[n:]
	}
	return nil
}

// Mapped returns what is mapped, neighbouring places joined: where it begins, and how much it is.
func (d *Device) Mapped() map[mem.Addr]mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	var spots []spot
	for at, p := range d.places {
		if p.mapped {
			spots = append(spots, spot{p, at})
		}
	}
	slices.SortFunc(spots, spot.compare)
	all := map[mem.Addr]mem.Bytes{}
	_ = runs(spots, func(at mem.Addr, size mem.Bytes, _ []spot) error {
		all[at] = size
		return nil
	})
	return all
}

// part unmaps places that are mapped. The memory of their handles stays as it is.
func (d *Device) part(spots []spot) error {
	mapped := slices.DeleteFunc(slices.Clone(spots), spot.isApart)
	return runs(mapped, func(at mem.Addr, size mem.Bytes, run []spot) error {
		if err := d.Device.Unmap(at, size); err != nil {
			return err
		}
		for _, s := range run {
			s.mapped, s.usable = false, false
		}
		d.apart += len(run)
		return nil
	})
}

// join maps places of handles that have memory, where it is not, and makes them usable. It leaves
// out handles that sleep: the driver may have given the value of theirs to other memory.
func (d *Device) join(spots []spot) error {
	there := slices.DeleteFunc(slices.Clone(spots), func(s spot) bool { return !s.of.there })
	for _, s := range there {
		if s.mapped {
			continue
		}
		if err := d.Device.Map(s.at, s.of.real); err != nil {
			return err
		}
		s.mapped = true
		d.apart--
	}
	return runs(there, func(at mem.Addr, size mem.Bytes, run []spot) error {
		if err := d.Device.Access(at, size); err != nil {
			return err
		}
		for _, s := range run {
			s.usable = true
		}
		return nil
	})
}

// Sleep gives the memory of handles back to the driver. No pending work may use it, and its
// contents are gone. It reports whether they sleep: where they do and there is an error, not all
// memory has gone back, or some places are not mapped, and Sleep or Wake does the rest. Else
// nothing has changed.
func (d *Device) Sleep(handles []driver.Handle) (asleep bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	spots := d.spots(handles)
	if err := d.part(spots); err != nil {
		undone := d.join(spots) // whose handles still have their memory
		return undone != nil, errors.Join(err, undone)
	}
	var there []*handle
	for _, h := range handles {
		if x := d.handles[h]; x != nil && x.there && x.shares == 0 {
			there = append(there, x)
		}
	}
	return true, d.empty(there)
}

// Wake makes memory for handles that sleep, and maps it where it was: all of it or, with an error,
// none, so far as the driver lets that be undone. What it holds is undefined. A handle that Map has
// woken meanwhile is mapped at its other places, too.
func (d *Device) Wake(handles []driver.Handle) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var made []*handle
	spots := d.withLeft(d.spots(handles))
	apart := slices.DeleteFunc(slices.Clone(spots), spot.isMapped)
	err := func() error {
		for _, h := range handles {
			if x := d.handles[h]; x != nil && !x.there && x.was == 0 {
				if err := d.fill(x); err != nil {
					return err
				}
				made = append(made, x)
			}
		}
		return d.join(spots)
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

// empty releases the memory of handles that are mapped nowhere.
func (d *Device) empty(handles []*handle) error {
	var errs []error
	for _, x := range handles {
		if err := d.giveUp(x); err != nil {
			errs = append(errs, err)
			continue
		}
		x.there, x.real = false, 0
		d.asleep += x.size
	}
	return errors.Join(errs...)
}

// Place returns the first place of a handle, and its size, 0 if there is no such handle. One that
// Export keeps awake has none for this.
func (d *Device) Place(h driver.Handle) (at mem.Addr, size mem.Bytes, has bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.handles[h]
	if x == nil {
		return 0, 0, false
	}
	for place := range x.places {
		if x.shares == 0 && (!has || place < at) {
			at, has = place, true
		}
	}
	return at, x.size, has
}

// Behind returns the handles that a range lies in, every byte of which has a place.
func (d *Device) Behind(addr mem.Addr, size mem.Bytes) (handles []driver.Handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.behind(addr, size) {
		handles = append(handles, s.of.name)
	}
	return handles
}

// Usable returns the first place of a handle that work can use: where a call of the driver has
// failed some are mapped without access, or not at all.
func (d *Device) Usable(h driver.Handle) (at mem.Addr, has bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.handles[h]
	if x == nil || !x.there {
		return 0, false
	}
	for place, p := range x.places {
		if p.mapped && p.usable && (!has || place < at) {
			at, has = place, true
		}
	}
	return at, has
}
