//go:build cgo

package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// tour makes every kind of call once and gives everything back, also when a
// call fails half-way. It returns the first error.
func tour(d *Device) error { return errors.Join(captureTour(d), d.Sync()) }

// captureTour is what of it may be called while a stream is being captured.
func captureTour(d *Device) (err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		}
	}
	undo := func(do func() error) {
		if e := do(); e != nil {
			keep(e)
			keep(do()) // the fault is gone by now
		}
	}
	addr, e := d.Reserve(2 * mem.HandleSize)
	if keep(e); e != nil {
		return err
	}
	defer undo(func() error { return d.Unreserve(addr, 2*mem.HandleSize) })
	h, e := d.Create(mem.HandleSize)
	if keep(e); e != nil {
		return err
	}
	defer undo(func() error { return d.Release(h) })
	keep(d.Map(addr, h))
	if err != nil {
		return err
	}
	defer undo(func() error { return d.Unmap(addr, mem.HandleSize) })
	e = d.Access(addr, mem.HandleSize)
	if keep(e); e == nil {
		keep(d.Write(addr, []byte{1}))
		keep(d.Read(make([]byte, 1), addr))
	}
	f, e := d.Record(0)
	if keep(e); e == nil {
		undo(func() error { _, err := d.Done(f); return err })
	}
	_, _, e = d.Memory()
	keep(e)
	return err
}

// TestEveryCallFails makes each driver call of a whole tour fail in turn, from
// opening to closing. The failure must be reported with its code, nothing may
// leak, and the device must work afterwards.
func TestEveryCallFails(t *testing.T) {
	restart(t, nil)
	d := open(t)
	if err := errors.Join(tour(d), d.Close()); err != nil {
		t.Fatal(err)
	}
	calls := lib.Count("*")
	if calls < 30 {
		t.Fatalf("a tour makes %d driver calls, too few to be one", calls)
	}
	for n := 1; n <= calls; n++ {
		restart(t, nil)
		lib.Fail(fmt.Sprintf("*:%d:719", n))
		err := openAndTour()
		var failure *driver.Error
		if !errors.As(err, &failure) || failure.Code != 719 ||
			failure.Name != "CUDA_ERROR_LAUNCH_FAILED" {
			t.Errorf("driver call %d of %d failed, reported as: %v", n, calls, err)
		}
		for _, kind := range []string{"handles", "mappings", "reservations", "blocks"} {
			if live := lib.Live(kind); live != 0 {
				t.Errorf("driver call %d of %d failed (%v): %d %s leaked", n, calls, err, live,
					kind)
			}
		}
	}
}

// openAndTour opens a device, tours it twice, and closes it. The second tour
// must succeed: one failure does not break the device.
func openAndTour() error {
	driver, err := Open(lib.Path)
	if err != nil {
		return err
	}
	d, err := driver.Device(0)
	if err != nil {
		return err
	}
	first, second := tour(d), tour(d)
	if first != nil && second != nil {
		return fmt.Errorf("both tours failed: %v, %v", first, second)
	}
	return errors.Join(first, second, d.Close())
}

// TestCallsByName makes every call of one function fail, with the code for a
// full device, and expects that function's name in the error.
func TestCallsByName(t *testing.T) {
	for _, call := range []string{
		"cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuEventCreate",
		"cuEventRecord",
		"cuCtxSynchronize", "cuStreamIsCapturing", "cuMemGetInfo", "cuCtxGetCurrent",
		"cuThreadExchangeStreamCaptureMode",
	} {
		restart(t, nil)
		d := open(t)
		lib.Fail(call + ":*:2")
		err := tour(d)
		lib.Fail("")
		if !errors.Is(err, driver.ErrOutOfMemory) || !strings.Contains(err.Error(),
			call+" failed with driver error 2 (CUDA_ERROR_OUT_OF_MEMORY)") {
			t.Errorf("every %s failed, reported as: %v", call, err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close after every %s failed: %v", call, err)
		}
	}
}

// TestContextOnlyWhereNeeded: mapping needs no context and gets none; waiting
// for a stream does, once.
func TestContextOnlyWhereNeeded(t *testing.T) {
	restart(t, nil)
	d := open(t)
	pushes := lib.Count("cuCtxPushCurrent")
	addr, err := d.Reserve(mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Create(mem.HandleSize)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Map(addr, h), d.Access(addr, mem.HandleSize),
		d.Unmap(addr, mem.HandleSize),
		d.Release(h), d.Unreserve(addr, mem.HandleSize)); err != nil {
		t.Fatal(err)
	}
	if n := lib.Count("cuCtxPushCurrent") - pushes; n != 0 {
		t.Errorf("mapping pushed a context %d times", n)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	if push, pop := lib.Count("cuCtxPushCurrent")-pushes, lib.Count("cuCtxPopCurrent"); push != 1 ||
		pop != 1 {
		t.Errorf("Sync pushed %d and popped %d contexts, want 1 and 1", push, pop)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestEventsThatCannotBeTold asks about fences that the driver cannot tell about: their events
// serve again.
func TestEventsThatCannotBeTold(t *testing.T) {
	restart(t, nil)
	d := open(t)
	lib.Fail("cuEventQuery:*:999")
	for range 10 {
		f, err := d.Record(0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Done(f); err == nil {
			t.Fatal("a driver that cannot tell has told")
		}
	}
	if n := lib.Live("events"); n != 1 {
		t.Errorf("10 fences, one after the other, have made %d events", n)
	}
	lib.Fail("")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
