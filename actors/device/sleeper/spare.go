package sleeper

import (
	"cmp"
	"errors"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Memory that one handle gives up may serve another at once, for releasing and creating it take
// half of the driver's time to move a handle. In between the memory is spare. It counts as held, so
// if memory of another size is needed, as much spare memory is released first.
//
// A handle that rests has given up its memory and stays mapped to it. Once no other handle has that
// memory, the handle rises: it is awake again, without a driver call. Its places are unmapped only
// if the memory is released to the driver; then it sleeps like any other.
//
//	awake     addresses ── place ── handle ── memory
//	rests     addresses ── place ─────────── memory ── other handle ── place ── addresses
//
// While it rests, its places show the memory of another handle. So a handle rests only while no
// block lies in it.

// spare is memory that no handle has, and what stays mapped to memory of others.
type spare struct {
	keep    bool                          // memory that is given up becomes spare
	bySize  map[mem.Bytes][]driver.Handle // of the wrapped device
	sum     mem.Bytes
	stay    map[driver.Handle][]*handle // mapped to memory that is not theirs
	resting mem.Bytes
	risen   []driver.Handle // since Risen was called
}

// Keep says whether memory that is given up from now on becomes spare, or is released.
func (d *Device) Keep(keep bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare.keep = keep
}

// Spare returns how much memory is held that no handle has.
func (d *Device) Spare() mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spare.sum
}

// Rest makes a handle rest until no other handle has its memory; then Risen returns it. A handle
// that other processes may have does not rest, and Risen returns it at once.
func (d *Device) Rest(h driver.Handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.handles[h]
	if x == nil || !x.there || x.exported {
		d.spare.risen = append(d.spare.risen, h)
		return
	}
	x.rests = true
	d.spare.resting += x.size
	d.spare.push(x.size, d.leave(x))
}

// Raise makes memory for resting handles whose own memory was released to the driver, in place of
// spare memory; Risen returns them, too. Otherwise they would rest for ever, and their caller would
// make other handles instead.
func (d *Device) Raise() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lost []*handle
	for _, x := range d.handles {
		if x.rests && x.was == 0 {
			lost = append(lost, x)
		}
	}
	slices.SortFunc(lost, func(a, b *handle) int { return cmp.Compare(a.name, b.name) })
	for _, x := range lost {
		if d.spare.sum < x.size {
			continue
		}
		if err := d.raise(x); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) raise(x *handle) error {
	if err := d.fill(x); err != nil {
		return err
	}
	if err := d.join(x.places); err != nil {
		undone := d.part(x.places)
		if undone == nil { // else what is mapped keeps its memory
			d.spare.push(x.size, x.real)
			d.spare.resting += x.size
			x.rests, x.there, x.real = true, false, 0
		}
		return errors.Join(err, undone)
	}
	d.spare.risen = append(d.spare.risen, x.name)
	return nil
}

// wakes stops counting a handle as asleep or resting.
func (d *Device) wakes(x *handle) {
	if x.rests {
		d.spare.resting -= x.size
	} else {
		d.asleep -= x.size
	}
	x.rests = false
}

// Resting returns how much memory the handles that rest had.
func (d *Device) Resting() mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spare.resting
}

// Risen returns the handles that have risen since it was called last.
func (d *Device) Risen() []driver.Handle {
	d.mu.Lock()
	defer d.mu.Unlock()
	risen := d.spare.risen
	d.spare.risen = nil
	return risen
}

// DropSpare releases all spare memory.
func (d *Device) DropSpare() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spend(d.spare.sum)
}

// take returns memory: spare memory of the size if there is some, else new.
func (d *Device) take(size mem.Bytes) (driver.Handle, error) {
	if x := &d.spare; len(x.bySize[size]) > 0 {
		return x.pop(size), nil
	}
	if err := d.spend(size); err != nil {
		return 0, err
	}
	h, err := d.Device.Create(size)
	if errors.Is(err, driver.ErrOutOfMemory) && d.spare.sum > 0 && d.spend(d.spare.sum) == nil {
		return d.Device.Create(size)
	}
	return h, err
}

// giveUp takes the memory of a handle: it becomes spare, or is released if Keep says so, if the
// handle is mapped, or if other processes may have it.
func (d *Device) giveUp(x *handle) error {
	keep := d.spare.keep && !x.exported
	for _, p := range x.places {
		keep = keep && !p.mapped
	}
	if !keep {
		return d.release(x.real)
	}
	d.pass(x.real, x.size)
	return nil
}

// pass gives memory that a handle has left to the one that rests on it, else it becomes spare.
func (d *Device) pass(real driver.Handle, size mem.Bytes) {
	for _, y := range d.spare.stay[real] {
		if y.rests {
			d.enter(y)
			d.spare.risen = append(d.spare.risen, y.name)
			return
		}
	}
	d.spare.push(size, real)
}

// release gives memory back to the driver, after it is unmapped everywhere.
func (d *Device) release(real driver.Handle) error {
	for _, x := range slices.Clone(d.spare.stay[real]) {
		if err := d.part(x.places); err != nil {
			return err
		}
		d.forsake(x)
	}
	return d.Device.Release(real)
}

// spend releases at least n bytes of spare memory, or all: first what no handle is mapped to.
func (d *Device) spend(n mem.Bytes) error {
	for _, rests := range []bool{false, true} {
		for size, all := range d.spare.bySize {
			for _, h := range slices.Clone(all) {
				if n <= 0 || (len(d.spare.stay[h]) > 0) != rests {
					continue
				}
				if err := d.release(h); err != nil {
					return err
				}
				d.spare.drop(size, h)
				n -= size
			}
		}
	}
	return nil
}

func (x *spare) push(size mem.Bytes, h driver.Handle) {
	x.bySize[size] = append(x.bySize[size], h)
	x.sum += size
}

func (x *spare) pop(size mem.Bytes) driver.Handle {
	all := x.bySize[size]
	h := all[len(all)-1]
	x.drop(size, h)
	return h
}

func (x *spare) drop(size mem.Bytes, h driver.Handle) {
	all := x.bySize[size]
	x.bySize[size] = slices.DeleteFunc(all, func(y driver.Handle) bool { return y == h })
	x.sum -= size
}
