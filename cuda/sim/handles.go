package sim

import (
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// handles is the table of physical handles. A handle's value is its index + 1
// with, above it, the number of times the index was reused: a value that was
// given up is never taken for a newer handle.
type handles struct {
	list     []handle
	idle     []uint32  // indices + 1
	held     int       // created and not released
	resident mem.Bytes // of those held or mapped: memory is in use
}

type handle struct {
	size  mem.Bytes
	reuse uint32
	maps  int32
	held  bool
}

func (t *handles) create(size mem.Bytes) driver.Handle {
	var i uint32
	if n := len(t.idle); n > 0 {
		i = t.idle[n-1]
		t.idle = t.idle[:n-1]
	} else {
		t.list = append(t.list, handle{})
		i = uint32(len(t.list))
	}
	h := &t.list[i-1]
	h.held, h.size = true, size
	t.held++
	t.resident += size
	return t.value(i)
}

// value returns the handle with that index + 1.
func (t *handles) value(i uint32) driver.Handle {
	return driver.Handle(uint64(t.list[i-1].reuse)<<32 | uint64(i))
}

// find returns the index + 1 of a handle that is held, or 0.
func (t *handles) find(value driver.Handle) uint32 {
	i := uint32(value)
	if i == 0 || int(i) > len(t.list) {
		return 0
	}
	if h := &t.list[i-1]; !h.held || uint64(h.reuse) != uint64(value)>>32 {
		return 0
	}
	return i
}

// size returns the size of a handle, or the least where find found none.
func (t *handles) size(i uint32) mem.Bytes {
	if i == 0 {
		return mem.HandleSize
	}
	return t.list[i-1].size
}

func (t *handles) release(i uint32) {
	t.list[i-1].held = false
	t.held--
	t.retire(i)
}

func (t *handles) unmap(i uint32) {
	t.list[i-1].maps--
	t.retire(i)
}

// retire frees the memory of a handle that is neither held nor mapped.
func (t *handles) retire(i uint32) {
	h := &t.list[i-1]
	if h.held || h.maps > 0 {
		return
	}
	h.reuse++
	t.resident -= h.size
	t.idle = append(t.idle, i)
}
