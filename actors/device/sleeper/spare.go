package sleeper

import (
	"errors"
	"slices"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Memory that one handle gives up may be another's at once: to take it back and to make it anew are
// half of what the driver takes to move a handle. It is spare in between. It counts as held, so
// whoever needs memory of another size gives as much of it back first.
//
// A handle that rests has given its memory up and stays mapped to it. Once nobody else has that
// memory the handle rises: it is awake as it was, without a call of the driver. Only where the
// memory goes back to the driver its places are unmapped; then it sleeps like any other.
//
//	awake     addresses ── place ── handle ── memory
//	rests     addresses ── place ─────────── memory ── other handle ── place ── addresses
//
// While it rests, its places show what another handle has. So only memory rests that nobody may
// touch there: that of no block.

// spare is memory that no handle has.
type spare struct {
	keep    bool                          // what is given up
	bySize  map[mem.Bytes][]driver.Handle // of the wrapped device
	sum     mem.Bytes
	rests   map[driver.Handle]*handle // what rests, by the memory that it is mapped to
	resting mem.Bytes
	risen   []driver.Handle // since Risen was called
}

// Keep has memory that is given up from now on be spare, or go back to the driver.
func (d *Device) Keep(keep bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare.keep = keep
}

// Spare returns how much is held that no handle has.
func (d *Device) Spare() mem.Bytes {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spare.sum
}

// Rest has a handle rest until its memory is nobody's: Risen tells. What other processes may have
// rises at once.
func (d *Device) Rest(h driver.Handle) {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.handles[h]
	if x == nil || !x.there || x.exported {
		d.spare.risen = append(d.spare.risen, h)
		return
	}
	d.spare.push(x.size, x.real)
	d.spare.rests[x.real] = x
	x.was, x.real, x.there, x.rests = x.real, 0, false, true
	d.spare.resting += x.size
}

// wakes counts a handle out that has slept, or rested.
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

// Risen returns what has risen since it was called last.
func (d *Device) Risen() []driver.Handle {
	d.mu.Lock()
	defer d.mu.Unlock()
	risen := d.spare.risen
	d.spare.risen = nil
	return risen
}

// DropSpare gives what nobody has back to the driver.
func (d *Device) DropSpare() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.spend(d.spare.sum)
}

// take returns memory: spare, if some has the size, or new.
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

// giveUp takes the memory of a handle. What is mapped, or other processes may have, stays theirs.
func (d *Device) giveUp(x *handle) error {
	keep := d.spare.keep && !x.exported
	for _, p := range x.places {
		keep = keep && !p.mapped
	}
	if !keep {
		return d.release(x.real)
	}
	if y := d.spare.rests[x.real]; y != nil {
		d.rise(y)
		return nil
	}
	d.spare.push(x.size, x.real)
	return nil
}

// rise gives a handle that rests its memory back.
func (d *Device) rise(x *handle) {
	delete(d.spare.rests, x.was)
	d.last++
	x.real, x.was, x.there, x.number = x.was, 0, true, d.last
	d.wakes(x)
	d.spare.risen = append(d.spare.risen, x.name)
}

// release gives memory back to the driver, which takes it once it is mapped nowhere.
func (d *Device) release(real driver.Handle) error {
	if x := d.spare.rests[real]; x != nil {
		if err := d.part(d.spotsOf(x)); err != nil {
			return err
		}
		d.forsake(x)
	}
	return d.Device.Release(real)
}

// forsake has a handle that rests sleep: it is not mapped to memory of others any more.
func (d *Device) forsake(x *handle) {
	delete(d.spare.rests, x.was)
	x.was = 0
}

// spend gives at least so much of what is spare back, or all of it: first what no handle rests on.
func (d *Device) spend(n mem.Bytes) error {
	for _, rests := range []bool{false, true} {
		for size, all := range d.spare.bySize {
			for _, h := range slices.Clone(all) {
				if n <= 0 || (d.spare.rests[h] != nil) != rests {
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
