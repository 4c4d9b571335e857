//go:build porttest

package main

/*
#cgo CFLAGS: -D_GNU_SOURCE
#include "porttest.h"
#include "runtime.h"
#include "tape.h"

*/
import "C"

import (
	"unsafe"

	"stalloc/cshim/internal/loan"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// front is a port and libstalloc over it: what the threads of a training process call.
// The build tag keeps it out of the library.
type front struct {
	*port
	served *stream.Tape
}

var frontHost *host

// newFront makes a stream. All are of one host, which has the process's only device.
func newFront(id mem.StreamID) *front {
	if frontHost == nil {
		C.stalloc_init()
		devices := &C.stalloc_devices
		e := &engine{
			devices: devices,
			arenas:  &C.stalloc_arenas,
		}
		frontHost = &host{Pool: loan.New(), e: e, device: &devices[0]}
	}
	return &front{port: frontHost.port(C.stalloc_stream_of(0, handle(uint64(id))))}
}

// handle is a number as C's pointer. It points nowhere.
func handle(n uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&n)) }

func (f *front) Load() mem.Bytes { return f.host.Load() }

// Alloc implements porttest.Subject: C's quick case and, as a lane does, Go behind it.
func (f *front) Alloc(asked mem.Bytes) mem.Addr {
	if at := C.stalloc_malloc(C.size_t(asked), 0, handle(uint64(f.ID()))); at != nil {
		return mem.Addr(uintptr(at))
	}
	f.Lock()
	defer f.Unlock()
	if f.served == nil {
		return 0
	}
	got := f.served.Alloc(asked)
	f.Turned(f.served)
	if got.Slot == stream.None {
		return 0
	}
	f.HandOut(got.Addr, asked)
	return got.Addr
}

// Serve implements actors.Port.
func (f *front) Serve(t, instead *stream.Tape) {
	f.port.Serve(t, instead)
	f.served = t
}

func (f *front) Free(addr mem.Addr) {
	C.stalloc_free(handle(uint64(addr)), 0, 0, handle(uint64(f.ID())))
}

func (f *front) Announces() bool { return true }

func (f *front) Look() {
	var s C.struct_stalloc_stats
	C.stalloc_get_stats(0, &s, C.sizeof_struct_stalloc_stats)
}

func (f *front) Takes(addr mem.Addr, asked mem.Bytes) {
	C.porttest_takes(C.struct_porttest_block{addr: C.uint64_t(addr), asked: C.uint64_t(asked), stream: C.uint64_t(f.ID())})
}

func (f *front) Pooled() ([]mem.Addr, int) {
	var out [C.PORTTEST_MOST]C.uint64_t
	var unknown C.int
	n := C.porttest_freed(&out[0], &unknown)
	return addresses(out[:n]), int(unknown)
}

func (f *front) Left() []mem.Addr {
	var out [C.PORTTEST_MOST]C.uint64_t
	return addresses(out[:C.porttest_left(&out[0])])
}

func addresses(from []C.uint64_t) (to []mem.Addr) {
	for _, a := range from {
		to = append(to, addr(a))
	}
	return to
}
