//go:build cgo

// Package cuda is the real device: the CUDA driver, opened at run time.
//
// The idea: nothing links against libcuda. driver.c opens the library and fills
// a table of functions, device.c and stream.c make each memory call safe from
// any thread at any moment (context and capture mode put in place and back
// within one C call), and this package gives them the shape of device.Device.
// The C files depend on nothing but libc, so libstalloc.so contains them too
// and may hand its table over with FromTable.
//
// One request followed through, Create then Map:
//
//	(*Device).Create → stalloc_device_create → relaxed capture mode →
//	cuMemCreate → capture mode back → handle noted as ours → (*Device).Map
//	looks the handle up, since the driver crashes on one it does not know →
//	cuMemMap
//
// Seen on an H100 with driver 580, and relied on: the calls of virtual memory
// management need no current context and do not disturb a stream capture; the
// other calls need a context; cuMemAlloc, cuMemFree and cuEventQuery
// invalidate every capture in the process unless their thread is in relaxed mode; asking
// about an event recorded on the capturing stream does so in any mode. CUDA's documentation
// says the same of a wait for the context.
//
// Usage:
//
//	driver, err := cuda.Open("")
//	gpu, err := driver.Device(0)
//	defer gpu.Close()
package cuda

/*
#cgo CFLAGS: -std=gnu11
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "device.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"stalloc/internal/driver"
	"stalloc/internal/mem"
)

// DefaultPath is the library that Open("") opens.
const DefaultPath = "libcuda.so.1"

// Driver is an opened driver library. It stays open for the life of the
// process: the driver does not survive being unloaded.
type Driver struct {
	table *C.struct_stalloc_driver
	path  string
}

// Open opens the driver library at path, or DefaultPath as the dynamic linker
// finds it if path is empty. It does not initialise CUDA: that is left to the
// first Device. The error names the library and the remedy.
func Open(path string) (*Driver, error) {
	if path == "" {
		path = DefaultPath
	}
	table := (*C.struct_stalloc_driver)(C.calloc(1, C.sizeof_struct_stalloc_driver))
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [1024]C.char
	if C.stalloc_driver_open(name, table, &text[0], C.size_t(len(text))) != 0 {
		C.free(unsafe.Pointer(table))
		return nil, errors.New(C.GoString(&text[0]))
	}
	return &Driver{table: table, path: path}, nil
}

// FromTable uses a struct stalloc_driver that the process has filled elsewhere.
// The table must outlive the Driver.
func FromTable(table unsafe.Pointer) *Driver {
	return &Driver{table: (*C.struct_stalloc_driver)(table),
		path: "the driver table of this process"}
}

// Device opens one GPU by its ordinal, as CUDA_VISIBLE_DEVICES numbers them, and
// retains its primary context. The error says what is missing and the remedy.
func (d *Driver) Device(ordinal int) (*Device, error) {
	dev := &Device{
		driver:  d,
		ordinal: ordinal,
		handles: map[driver.Handle]mem.Bytes{}, exported: map[driver.Handle]driver.Shared{},
		events: events{fences: map[driver.Fence]C.uintptr_t{}},
	}
	var facts C.struct_stalloc_device_facts
	if err := d.check(C.stalloc_device_open(d.table, C.int(ordinal), &dev.c, &facts)); err != nil {
		return nil, d.explain(ordinal, int(facts.count), err)
	}
	dev.name = C.GoString(&facts.name[0])
	var err error
	switch {
	case facts.virtual_memory == 0:
		err = fmt.Errorf("device %d (%s) cannot map virtual memory with driver %s (CUDA %d.%d): expected a GPU of compute capability 6.0 or later on Linux; choose another device",
			ordinal, dev.name, d.path, facts.version/1000, facts.version%1000/10)
	case int64(mem.HandleSize)%int64(facts.granularity) != 0:
		err = fmt.Errorf("device %d (%s) allocates in units of %v: expected a divisor of %v; choose another device",
			ordinal, dev.name, mem.Bytes(facts.granularity), mem.HandleSize)
	default:
		return dev, nil
	}
	return nil, errors.Join(err, d.check(C.stalloc_device_close(&dev.c)))
}

// explain adds to a failed opening what the user can do about it.
func (d *Driver) explain(ordinal, count int, err error) error {
	if count > 0 && (ordinal < 0 || ordinal >= count) {
		return fmt.Errorf("there is no device %d: %s has %d, numbered from 0; check CUDA_VISIBLE_DEVICES: %w",
			ordinal, d.path, count, err)
	}
	return fmt.Errorf("cannot open device %d through %s: %w; check that nvidia-smi lists the GPU and that CUDA_VISIBLE_DEVICES does not hide it",
		ordinal, d.path, err)
}

// check turns a status into a *driver.Error or nil.
func (d *Driver) check(s C.struct_stalloc_status) error {
	if s.code == 0 {
		return nil
	}
	return d.failure(C.GoString(s.call), s.code)
}

func (d *Driver) failure(call string, code C.stalloc_cu_result) *driver.Error {
	return &driver.Error{
		Call: call,
		Code: int(code),
		Name: C.GoString(C.stalloc_driver_error_name(d.table, code)),
	}
}
