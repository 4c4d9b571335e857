package device_test

import (
	"testing"

	"stalloc/actors/device"
	"stalloc/cuda/sim"
	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// TestOwner leaves one of everything behind, in several places, and expects the
// device under it, which tells what was leaked, to close clean.
func TestOwner(t *testing.T) {
	inner := sim.New(sim.Config{Capacity: 64 * mem.MiB})
	o := device.NewOwner(inner)
	a, err := o.Reserve(5 * page)
	must(t, err)
	b, err := o.Reserve(2 * page) // its neighbour, where nothing lies between
	must(t, err)
	var handles []driver.Handle
	for i, at := range []mem.Addr{a, a + mem.Addr(page), a + 4*mem.Addr(page), b} {
		h, err := o.Create([]mem.Bytes{page, 2 * page, page, 2 * page}[i])
		must(t, err)
		must(t, o.Map(at, h))
		handles = append(handles, h)
	}
	must(t, o.Access(a, 3*page))
	must(t, o.Release(handles[0]))    // mapped, not held
	_, err = o.Create(mem.HandleSize) // held, not mapped
	must(t, err)
	_, err = o.Malloc(1000)
	must(t, err)
	gone, err := o.Malloc(1000)
	must(t, err)
	must(t, o.Free(gone))
	before := inner.Stats()
	must(t, o.Close())
	if used := inner.Used(); used != 0 {
		t.Errorf("%v of the device are still in use", used)
	}
	if n := inner.Stats().Unmap - before.Unmap; n != 3 {
		t.Errorf("three runs of mappings were unmapped with %d calls", n)
	}
	must(t, o.Close()) // does nothing
}

// TestOwnerCloseFails goes on when a call fails, and tells.
func TestOwnerCloseFails(t *testing.T) {
	inner := sim.New(sim.Config{Capacity: 64 * mem.MiB})
	o := device.NewOwner(inner)
	_, err := o.Create(mem.HandleSize)
	must(t, err)
	addr, err := o.Reserve(page)
	must(t, err)
	_ = inner.Unreserve(addr, page) // behind its back
	if err := o.Close(); err == nil {
		t.Error("a reservation could not be given back, and Close says nothing")
	}
	if used := inner.Used(); used != 0 {
		t.Errorf("%v of the device are still in use", used)
	}
}
