package sleeper

import (
	"slices"

	"stalloc/internal/driver"
)

// What stays mapped to memory that is not its own: handles that rest (spare.go) and, where Keep
// says so, those that sleep.

// leave takes the memory of a handle that stays mapped to it.
func (d *Device) leave(x *handle) (real driver.Handle) {
	real = x.real
	d.spare.stay[real] = append(d.spare.stay[real], x)
	x.was, x.real, x.there = real, 0, false
	return real
}

// enter gives a handle the memory that it is mapped to, which nobody has.
func (d *Device) enter(x *handle) {
	real := x.was
	d.wakes(x)
	d.forsake(x)
	d.last++
	x.real, x.there, x.number = real, true, d.last
}

// forsake has a handle count as mapped to memory of others no more.
func (d *Device) forsake(x *handle) {
	left := slices.DeleteFunc(d.spare.stay[x.was], func(y *handle) bool { return y == x })
	if d.spare.stay[x.was] = left; len(left) == 0 {
		delete(d.spare.stay, x.was)
	}
	x.was = 0
}

// doze has handles sleep that stay mapped, and returns those that cannot.
func (d *Device) doze(handles []driver.Handle) (others []driver.Handle) {
	for _, h := range handles {
		x := d.handles[h]
		if x == nil || !x.there || x.shares > 0 || x.exported || !x.usable() {
			others = append(others, h)
			continue
		}
		d.asleep += x.size
		d.pass(d.leave(x), x.size)
	}
	return others
}

// rouse wakes handles that stayed mapped to memory that is spare, and returns them. The others are
// unmapped.
func (d *Device) rouse(handles []driver.Handle) (roused []driver.Handle, err error) {
	for _, h := range handles {
		x := d.handles[h]
		if x == nil || x.was == 0 || x.rests {
			continue
		}
		if d.isSpare(x) {
			d.spare.drop(x.size, x.was)
			d.enter(x)
			roused = append(roused, h)
			continue
		}
		if err := d.part(d.spotsOf(x)); err != nil {
			return roused, err
		}
		d.forsake(x)
	}
	return roused, nil
}

// isSpare reports whether nobody has the memory that a handle stays mapped to.
func (d *Device) isSpare(x *handle) bool {
	return x.was != 0 && slices.Contains(d.spare.bySize[x.size], x.was)
}

// Ready reports whether a handle would wake without a call of the driver.
func (d *Device) Ready(h driver.Handle) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.handles[h]
	return x != nil && d.isSpare(x)
}

// usable reports whether all places of a handle can be used.
func (x *handle) usable() bool {
	for _, p := range x.places {
		if !p.mapped || !p.usable {
			return false
		}
	}
	return true
}
