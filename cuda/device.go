//go:build cgo

package cuda

/*
#include <string.h>

#include "device.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// Device is one GPU. All methods but EnablePeers and Close may be called from
// any thread at any time. Errors of the driver are *driver.Error.
type Device struct {
	driver  *Driver
	c       C.struct_stalloc_device
	ordinal int
	name    string

	// What is alive. The driver dereferences a handle without a check, and
	// reports nothing at the end: so handles are looked up here first, and
	// the rest is counted.
	mu       sync.Mutex
	closed   bool
	handles  map[driver.Handle]mem.Bytes // their sizes, which Map must name
	exported map[driver.Handle]driver.Shared
	reserved atomic.Int64 // reservations

	events
}

// bytes makes a negative size 0, which the driver refuses, instead of a huge
// one, which it might not.
func bytes(size mem.Bytes) C.size_t { return C.size_t(max(size, 0)) }

// Name returns the device's name as the driver gives it.
func (d *Device) Name() string { return d.name }

// UUID returns the device's identity, the same in every process and whatever
// CUDA_VISIBLE_DEVICES says, as 8-4-4-4-12 hexadecimal digits. nvidia-smi writes
// "GPU-" before it, or "MIG-" for an instance of a GPU.
func (d *Device) UUID() (string, error) {
	var uuid C.struct_stalloc_cu_uuid
	if err := d.driver.check(C.stalloc_device_uuid(&d.c, &uuid)); err != nil {
		return "", err
	}
	b := C.GoBytes(unsafe.Pointer(&uuid.bytes[0]), C.int(len(uuid.bytes)))
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// Reserve takes address space; see device.Device.
func (d *Device) Reserve(size mem.Bytes) (mem.Addr, error) {
	var addr C.stalloc_cu_addr
	if err := d.driver.check(C.stalloc_device_reserve(&d.c, bytes(size), &addr)); err != nil {
		return 0, err
	}
	d.reserved.Add(1)
	return mem.Addr(addr), nil
}

// Unreserve gives a whole reservation back.
func (d *Device) Unreserve(addr mem.Addr, size mem.Bytes) error {
	if err := d.driver.check(C.stalloc_device_unreserve(&d.c, C.stalloc_cu_addr(addr),
		bytes(size))); err != nil {
		return err
	}
	d.reserved.Add(-1)
	return nil
}

// Create takes one physical handle; see device.Device.
func (d *Device) Create(size mem.Bytes) (driver.Handle, error) {
	var handle C.stalloc_cu_handle
	if err := d.driver.check(C.stalloc_device_create(&d.c, bytes(size), &handle)); err != nil {
		return 0, err
	}
	d.mu.Lock()
	d.handles[driver.Handle(handle)] = size
	d.mu.Unlock()
	return driver.Handle(handle), nil
}

// Release gives a handle up. An unknown one is refused with error 1.
func (d *Device) Release(h driver.Handle) error {
	d.mu.Lock()
	size, known := d.handles[h]
	delete(d.handles, h)
	d.mu.Unlock()
	if !known {
		return d.unknown("cuMemRelease", h)
	}
	err := d.driver.check(C.stalloc_device_release(&d.c, C.stalloc_cu_handle(h)))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.handles[h] = size
		return err
	}
	if name, is := d.exported[h]; is {
		delete(d.exported, h)
		if name.FD >= 0 {
			_ = syscall.Close(name.FD) // the program may have: the memory is gone all the same
		}
	}
	return nil
}

// Export implements device.Exporter.
func (d *Device) Export(h driver.Handle) (name driver.Shared, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.handles[h]; !known {
		return name, d.unknown("cuMemExportToShareableHandle", h)
	}
	if name, is := d.exported[h]; is {
		return name, nil
	}
	if d.c.prop.handle_types == 0 {
		return name, errNotShared
	}
	var out C.struct_stalloc_exported
	if err = d.driver.check(C.stalloc_device_export(&d.c, C.stalloc_cu_handle(h),
		&out)); err != nil {
		const remedy = "cannot be given to other processes; with share:fd it takes a file descriptor for each handle, see ulimit -n: %w"
		return name, fmt.Errorf(remedy, err)
	}
	name.FD = int(out.fd)
	if name.FD < 0 {
		name.Fabric = string(C.GoBytes(unsafe.Pointer(&out.name[0]), driver.FabricName))
	}
	d.exported[h] = name
	return name, nil
}

var errNotShared = errors.New("this memory cannot be given to other processes: start the program with " +
	"STALLOC_CONF=share:fd")

// MapShared implements device.Exporter.
func (d *Device) MapShared(addr mem.Addr, s driver.Shared, size mem.Bytes) error {
	what := C.struct_stalloc_exported{fd: C.int(s.FD)}
	switch len(s.Fabric) {
	case 0:
		if s.FD < 0 {
			return fmt.Errorf("%d is no file descriptor: expected one of this process that names the memory", s.FD)
		}
	case driver.FabricName:
		what.fd = -1
		C.memcpy(unsafe.Pointer(&what.name[0]), unsafe.Pointer(unsafe.StringData(s.Fabric)),
			driver.FabricName)
	default:
		return fmt.Errorf("a fabric's name of memory has %d bytes: expected %d", len(s.Fabric),
			driver.FabricName)
	}
	return d.driver.check(C.stalloc_device_map_exported(&d.c, C.stalloc_cu_addr(addr), bytes(size),
		&what))
}

// Map puts the whole handle at addr. An unknown handle is refused with error 1.
func (d *Device) Map(addr mem.Addr, h driver.Handle) error {
	d.mu.Lock()
	size, known := d.handles[h]
	d.mu.Unlock()
	if !known {
		return d.unknown("cuMemMap", h)
	}
	return d.driver.check(C.stalloc_device_map(&d.c, C.stalloc_cu_addr(addr), bytes(size),
		C.stalloc_cu_handle(h)))
}

func (d *Device) unknown(call string, h driver.Handle) error {
	return fmt.Errorf("%w: there is no handle %#x",
		d.driver.failure(call, C.STALLOC_CU_INVALID_VALUE), uint64(h))
}

// Access grants read and write on a range of whole mappings to this device and to the
// peers named by EnablePeers.
func (d *Device) Access(addr mem.Addr, size mem.Bytes) error {
	return d.driver.check(C.stalloc_device_access(&d.c, C.stalloc_cu_addr(addr), bytes(size)))
}

// Unmap parts a range of whole mappings from its handles.
func (d *Device) Unmap(addr mem.Addr, size mem.Bytes) error {
	return d.driver.check(C.stalloc_device_unmap(&d.c, C.stalloc_cu_addr(addr), bytes(size)))
}

// Memory returns the device's free and total memory, all processes counted.
func (d *Device) Memory() (free, total mem.Bytes, err error) {
	var f, t C.size_t
	err = d.driver.check(C.stalloc_device_memory(&d.c, &f, &t))
	return mem.Bytes(f), mem.Bytes(t), err
}

// Share makes memory from now on such that other processes can be given it: as file descriptors
// or, with fabric, on other hosts, too. If the device cannot, that is the error and nothing
// changes. It must not run beside Create.
func (d *Device) Share(fabric bool) error {
	kind := C.int(C.STALLOC_CU_HANDLE_FD)
	if fabric {
		kind = C.STALLOC_CU_HANDLE_FABRIC
	}
	return d.driver.check(C.stalloc_device_share(&d.c, kind))
}

// EnablePeers lets the devices of these ordinals use what Access is called for
// from now on, in place of earlier peers. It must not run beside Access. If one of
// them cannot reach this device's memory, that is the error and nothing changes.
func (d *Device) EnablePeers(ordinals ...int) error {
	if len(ordinals) > C.STALLOC_MAX_PEERS {
		return fmt.Errorf("%d peers of device %d: at most %d are possible", len(ordinals),
			d.ordinal, C.STALLOC_MAX_PEERS)
	}
	for _, ordinal := range ordinals {
		var can C.int
		if err := d.driver.check(C.stalloc_device_reached_by(&d.c, C.int(ordinal),
			&can)); err != nil {
			return err
		}
		if can == 0 {
			return fmt.Errorf("device %d cannot reach the memory of device %d (see nvidia-smi topo -p2p r)", ordinal, d.ordinal)
		}
	}
	for i, ordinal := range ordinals {
		d.c.access[1+i] = d.c.access[0]
		d.c.access[1+i].location.id = C.int(ordinal)
	}
	d.c.access_count = C.size_t(1 + len(ordinals))
	return nil
}

// Close destroys the events and releases the primary context. The error tells
// what was not given back. A second Close does nothing. No other call may be
// under way.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	errs := []error{d.dropEvents()}
	if code := d.c.restore; code != 0 {
		errs = append(errs, fmt.Errorf("a thread's context or capture mode could not be restored: %w",
			d.driver.failure("cuCtxPopCurrent", code)))
	}
	r, h := d.reserved.Load(), len(d.handles)
	if r != 0 || h != 0 {
		errs = append(errs, fmt.Errorf("%s closed with %d reservations and %d handles not given back", d.name, r, h))
	}
	errs = append(errs, d.driver.check(C.stalloc_device_close(&d.c)))
	d.closed = true
	return errors.Join(errs...)
}
