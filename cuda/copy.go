//go:build cgo

package cuda

// #include "device.h"
import "C"

import (
	"unsafe"

	"stalloc/internal/mem"
)

// Read copies device memory to the host and waits for it.
func (d *Device) Read(to []byte, from mem.Addr) error {
	if len(to) == 0 {
		return nil
	}
	return d.driver.check(C.stalloc_device_read(&d.c, unsafe.Pointer(unsafe.SliceData(to)),
		C.stalloc_cu_addr(from), C.size_t(len(to))))
}

// Write copies host memory to the device and waits for it.
func (d *Device) Write(to mem.Addr, from []byte) error {
	if len(from) == 0 {
		return nil
	}
	return d.driver.check(C.stalloc_device_write(&d.c, C.stalloc_cu_addr(to),
		unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from))))
}

// CopyOut copies device memory to the host behind the work on a stream; see device.Mover.
func (d *Device) CopyOut(to []byte, from mem.Addr, on mem.StreamID) error {
	return d.driver.check(C.stalloc_device_copy_out(&d.c, unsafe.Pointer(unsafe.SliceData(to)),
		C.stalloc_cu_addr(from), C.size_t(len(to)), C.uintptr_t(on)))
}

// CopyBack copies host memory to the device behind the work on a stream; see device.Mover.
func (d *Device) CopyBack(to mem.Addr, from []byte, on mem.StreamID) error {
	return d.driver.check(C.stalloc_device_copy_back(&d.c, C.stalloc_cu_addr(to),
		unsafe.Pointer(unsafe.SliceData(from)), C.size_t(len(from)), C.uintptr_t(on)))
}

// Pin makes copies to and from memory of the host run at the full speed of the link, until Unpin.
// The memory is whole pages that do not belong to Go.
func (d *Device) Pin(memory []byte) error {
	return d.driver.check(C.stalloc_device_pin(&d.c, unsafe.Pointer(unsafe.SliceData(memory)),
		C.size_t(len(memory))))
}

// Unpin ends a Pin of just this memory.
func (d *Device) Unpin(memory []byte) error {
	return d.driver.check(C.stalloc_device_unpin(&d.c, unsafe.Pointer(unsafe.SliceData(memory))))
}
