package sleeper

import (
	"errors"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Memory that one handle gives up may be another's at once: to take it back and to make it anew are
// half of what the driver takes to move a handle. It is spare in between. It counts as held, so
// whoever needs memory of another size gives as much of it back first.

// spare is memory that no handle has.
type spare struct {
	keep   bool                          // what is given up
	bySize map[mem.Bytes][]driver.Handle // of the wrapped device
	sum    mem.Bytes
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

// DropSpare gives it back.
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
		return d.Device.Release(x.real)
	}
	d.spare.bySize[x.size] = append(d.spare.bySize[x.size], x.real)
	d.spare.sum += x.size
	return nil
}

// spend gives at least so much of what is spare back, or all of it.
func (d *Device) spend(n mem.Bytes) error {
	for size := range d.spare.bySize {
		for n > 0 && len(d.spare.bySize[size]) > 0 {
			h := d.spare.pop(size)
			if err := d.Device.Release(h); err != nil {
				d.spare.bySize[size] = append(d.spare.bySize[size], h)
				d.spare.sum += size
				return err
			}
			n -= size
		}
	}
	return nil
}

func (x *spare) pop(size mem.Bytes) driver.Handle {
	all := x.bySize[size]
	x.bySize[size] = all[:len(all)-1]
	x.sum -= size
	return all[len(all)-1]
}
