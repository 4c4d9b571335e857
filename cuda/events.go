//go:build cgo

package cuda

/*
#include "device.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// events turns the driver's events into fences. An event costs the driver more
// to make than to record, so events are used again; and a fence is a number of
// its own, so that one that is gone is told apart from the event's next use.
//
// A wave of fences leaves its events behind: of those that are idle mostIdle are kept.
type events struct {
	fenceLock sync.Mutex
	fences    map[driver.Fence]C.uintptr_t
	idle      []C.uintptr_t
	lastFence driver.Fence
}

// Record puts an event behind the work pending on the stream. On a stream that
// is being captured it fails with error 900.
func (d *Device) Record(id mem.StreamID) (driver.Fence, error) {
	event := d.takeEvent()
	err := d.driver.check(C.stalloc_device_record(&d.c, C.uintptr_t(id), &event))
	d.fenceLock.Lock()
	defer d.fenceLock.Unlock()
	if err != nil {
		if event != 0 {
			d.idle = append(d.idle, event)
		}
		return 0, err
	}
	d.lastFence++
	d.fences[d.lastFence] = event
	return d.lastFence, nil
}

func (d *Device) takeEvent() (event C.uintptr_t) {
	d.fenceLock.Lock()
	defer d.fenceLock.Unlock()
	if n := len(d.idle); n > 0 {
		event = d.idle[n-1]
		d.idle = d.idle[:n-1]
	}
	return event
}

// Done asks whether the fence has passed; if so, or if the driver cannot tell, it is gone. A fence
// that is gone or never was is refused with error 400.
func (d *Device) Done(f driver.Fence) (bool, error) {
	d.fenceLock.Lock()
	defer d.fenceLock.Unlock() // also against a second question about f
	event, known := d.fences[f]
	if !known {
		return false, fmt.Errorf("%w: there is no fence %d", d.driver.failure("cuEventQuery",
			C.STALLOC_CU_INVALID_HANDLE), uint64(f))
	}
	var done C.int
	err := d.driver.check(C.stalloc_device_query(&d.c, event, &done))
	if err != nil || done != 0 {
		delete(d.fences, f)
		if len(d.idle) < mostIdle {
			d.idle = append(d.idle, event)
		} else if drop := d.driver.check(C.stalloc_device_drop_event(&d.c, event)); drop != nil {
			d.idle = append(d.idle, event) // it is still there
		}
	}
	return err == nil && done != 0, err
}

const mostIdle = 1 << 10

// Await makes work that a stream gets from now on wait for a fence, which is still to be asked
// about. One that has passed is not waited for.
func (d *Device) Await(id mem.StreamID, f driver.Fence) error {
	d.fenceLock.Lock()
	defer d.fenceLock.Unlock()
	event, known := d.fences[f]
	if !known {
		return nil
	}
	return d.driver.check(C.stalloc_device_await(&d.c, C.uintptr_t(id), event))
}

// Sync waits for all work on the device. While a stream is being captured it fails with
// error 900 and ends the capture.
func (d *Device) Sync() error {
	return d.driver.check(C.stalloc_device_sync(&d.c))
}

// NewStream makes a stream that does not wait for the default stream.
func (d *Device) NewStream() (mem.StreamID, error) {
	var s C.uintptr_t
	if err := d.driver.check(C.stalloc_device_new_stream(&d.c, &s)); err != nil {
		return 0, err
	}
	return mem.StreamID(s), nil
}

// DropStream gives back a stream made by NewStream, once its work is done.
func (d *Device) DropStream(id mem.StreamID) error {
	return d.driver.check(C.stalloc_device_drop_stream(&d.c, C.uintptr_t(id)))
}

func (d *Device) dropEvents() error {
	d.fenceLock.Lock()
	defer d.fenceLock.Unlock()
	for f, event := range d.fences {
		d.idle = append(d.idle, event)
		delete(d.fences, f)
	}
	var errs []error
	for _, event := range d.idle {
		errs = append(errs, d.driver.check(C.stalloc_device_drop_event(&d.c, event)))
	}
	d.idle = nil
	return errors.Join(errs...)
}
