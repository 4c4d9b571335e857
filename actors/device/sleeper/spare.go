package sleeper

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Memory that one handle gives up may serve another at once: releasing and creating it would take
// half of the driver's time for that. In between the memory is spare. It counts as held, so if
// memory of another size is needed, as much spare memory is released first.
//
// A handle that rests has given up its memory and stays mapped to it, as a guest; several may rest
// on the same memory, one after the other. Once no other handle has that memory, the handle rises:
// it is awake again, without a driver call. Its places are unmapped only if the memory is released
// to the driver; then it sleeps like any other.
//
//	awake     addresses ── place ── handle ── memory
//	rests     addresses ── place ─────────── memory ── other handle ── place ── addresses
//
// While it rests, its places show the memory of another handle. So a handle rests only while no
// block lies in it.

// memory is a handle of the wrapped device.
type memory struct {
	real     driver.Handle
	size     mem.Bytes
	number   driver.Handle // of no other memory, ever
	exported bool          // other processes may have it
	guests   []*handle     // mapped to it, which is not theirs
}

// spare is memory that no handle has.
type spare struct {
	keep    bool      // memory that is given up becomes spare
	all     []*memory // what was given up last is last
	resting mem.Bytes
	risen   []driver.Handle // since Risen was called
}

// Keep says whether memory that is given up from now on becomes spare, or is released.
func (d *Device) Keep(keep bool) { d.spare.keep = keep }

// Spare returns how much memory is held that no handle has.
func (d *Device) Spare() (n mem.Bytes) {
	for _, m := range d.spare.all {
		n += m.size
	}
	return n
}

// Rest makes a handle rest until no other handle has its memory; then Risen returns it. A handle
// that other processes may have does not rest, and Risen returns it at once.
func (d *Device) Rest(h driver.Handle) {
	x := d.handles[h]
	if x == nil || x.memory == nil || x.memory.exported {
		d.spare.risen = append(d.spare.risen, h)
		return
	}
	x.guest, x.rests = x.memory, true
	x.guest.guests = append(x.guest.guests, x)
	d.rests(x)
}

// rests takes a handle's memory, which becomes spare.
func (d *Device) rests(x *handle) {
	d.spare.resting += x.size
	d.spare.all = append(d.spare.all, x.memory)
	x.rests, x.memory = true, nil
}

// Raise gives spare memory to handles that rest, and Risen returns them, too. Those that are mapped
// to it get it without a driver call. Others get it in place of their own, first those whose own
// was released: they would rest for ever, and their caller would make other handles instead. Unless
// all is set, those whose memory another has go on resting: it may come back without a call.
func (d *Device) Raise(all bool) error {
	d.spare.all = slices.DeleteFunc(d.spare.all, d.raises)
	var resting []*handle
	for _, x := range d.handles {
		if x.rests && (all || x.guest == nil) {
			resting = append(resting, x)
		}
	}
	rank := func(x *handle) int {
		if x.guest == nil {
			return 0
		}
		return 1
	}
	slices.SortFunc(resting, func(a, b *handle) int {
		return cmp.Or(rank(a)-rank(b), cmp.Compare(a.name, b.name))
	})
	room := d.Spare() // of which more is released than made where sizes differ
	for _, x := range resting {
		if room < x.size {
			continue
		}
		if err := d.fill(x); err != nil {
			return err
		}
		room -= x.size
		if err := d.join(x.places); err != nil {
			undone := d.part(x.places)
			if undone == nil { // else what is mapped keeps its memory
				d.rests(x)
			}
			return errors.Join(err, undone)
		}
		d.spare.risen = append(d.spare.risen, x.name)
	}
	return nil
}

// wakes gives a handle memory that no other has: it neither sleeps nor rests any more.
func (d *Device) wakes(x *handle, m *memory) {
	if x.rests {
		d.spare.resting -= x.size
	} else {
		d.asleep -= x.size
	}
	x.dropGuest()
	x.memory, x.rests = m, false
}

// dropGuest stops counting a handle as mapped to memory of others.
func (x *handle) dropGuest() {
	if m := x.guest; m != nil {
		m.guests = slices.DeleteFunc(m.guests, func(y *handle) bool { return y == x })
		x.guest = nil
	}
}

// isWhole reports whether all places are mapped: some are not where a call has failed.
func (x *handle) isWhole() bool {
	return !slices.ContainsFunc(x.places, func(p *place) bool { return !p.mapped })
}

// Resting returns how much memory the handles that rest had.
func (d *Device) Resting() mem.Bytes { return d.spare.resting }

// Risen returns the handles that have risen since it was called last.
func (d *Device) Risen() []driver.Handle {
	risen := d.spare.risen
	d.spare.risen = nil
	return risen
}

// DropSpare releases all spare memory.
func (d *Device) DropSpare() error { return d.spend(math.MaxInt64) }

// take returns memory: spare memory of the size if there is some, else new.
func (d *Device) take(size mem.Bytes) (*memory, error) {
	for i, m := range slices.Backward(d.spare.all) {
		if m.size == size {
			d.spare.all = slices.Delete(d.spare.all, i, i+1)
			return m, nil
		}
	}
	if err := d.spend(size); err != nil {
		return nil, err
	}
	real, err := d.Device.Create(size)
	if errors.Is(err, driver.ErrOutOfMemory) && len(d.spare.all) > 0 &&
		d.spend(math.MaxInt64) == nil {
		real, err = d.Device.Create(size)
	}
	if err != nil {
		return nil, err
	}
	d.made++
	return &memory{real: real, size: size, number: d.made}, nil
}

// giveUp takes the memory of a handle. It is released if Keep says so, if the handle is mapped, or
// if other processes may have it; else a handle that rests on it rises, or it becomes spare.
func (d *Device) giveUp(x *handle) error {
	m := x.memory
	if !d.spare.keep || m.exported || slices.ContainsFunc(x.places, isMapped) {
		if err := d.release(m); err != nil {
			return err
		}
		x.memory = nil
		return nil
	}
	x.memory = nil
	if !d.raises(m) {
		d.spare.all = append(d.spare.all, m)
	}
	return nil
}

// raises gives memory that no handle has to one that is mapped to it. False: there is none.
func (d *Device) raises(m *memory) bool {
	i := slices.IndexFunc(m.guests, func(x *handle) bool { return x.rests && x.isWhole() })
	if i < 0 {
		return false
	}
	x := m.guests[i]
	d.wakes(x, m)
	d.spare.risen = append(d.spare.risen, x.name)
	return true
}

// release gives memory back to the driver, after it is unmapped everywhere.
func (d *Device) release(m *memory) error {
	for _, x := range slices.Clone(m.guests) {
		if err := d.part(x.places); err != nil {
			return err
		}
		x.dropGuest()
	}
	return d.Device.Release(m.real)
}

// spend releases at least n bytes of spare memory, or all: first what no handle is mapped to.
func (d *Device) spend(n mem.Bytes) error {
	for _, guests := range []bool{false, true} {
		for _, m := range slices.Clone(d.spare.all) {
			if n <= 0 || len(m.guests) > 0 != guests {
				continue
			}
			if err := d.release(m); err != nil {
				return err
			}
			d.spare.all = slices.DeleteFunc(d.spare.all, func(x *memory) bool { return x == m })
			n -= m.size
		}
	}
	return nil
}
