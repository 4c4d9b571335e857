package sleeper

import (
	"slices"

	"stalloc/internal/driver"
)

// Handles that stay mapped to memory that is not their own: those that rest (spare.go). Several may
// rest on the same memory, one after the other.

// leave takes the memory from a handle, which stays mapped to it.
func (d *Device) leave(x *handle) (real driver.Handle) {
	real = x.real
	d.spare.stay[real] = append(d.spare.stay[real], x)
	x.was, x.real, x.there = real, 0, false
	return real
}

// enter gives a handle the memory that it is mapped to, which no handle has.
func (d *Device) enter(x *handle) {
	real := x.was
	d.wakes(x)
	d.forsake(x)
	d.last++
	x.real, x.there, x.number = real, true, d.last
}

// forsake stops counting a handle as mapped to memory of others.
func (d *Device) forsake(x *handle) {
	left := slices.DeleteFunc(d.spare.stay[x.was], func(y *handle) bool { return y == x })
	if d.spare.stay[x.was] = left; len(left) == 0 {
		delete(d.spare.stay, x.was)
	}
	x.was = 0
}
