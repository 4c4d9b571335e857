// Package loan shows the engine's state to cshim/range.h, whose quick cases serve
// requests of the range from it while it is lent.
package loan

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../..
#include "lent.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"stalloc/engine/onerange"
	"stalloc/internal/mem"
)

// Range is the range of one device as C sees it. The arrays are Go's, pinned as long as C
// knows where they are. Whoever calls has the device's lock.
type Range struct {
	c      *C.struct_stalloc_range
	shown  arrays
	pinner runtime.Pinner
}

// arrays are the addresses of those of an onerange.Lent.
type arrays [5]unsafe.Pointer

// At returns the range whose struct stalloc_range lies at an address.
func At(address unsafe.Pointer) *Range { return &Range{c: (*C.struct_stalloc_range)(address)} }

// Lend shows the state to C, which asks the engine again when the clock reaches until, for
// requests that no tape knows of more than most units, and with tapeOnly for all of those.
func (r *Range) Lend(l *onerange.Lent, until uint64, most uint64, tapeOnly bool) {
	if now := addresses(l); now != r.shown {
		r.show(l, &now)
	}
	c := r.c
	*(*onerange.Counters)(unsafe.Pointer(&c.now)) = l.Counters
	c.block_most, c.heap_n = C.int64_t(cap(l.Blocks)-1), C.uint32_t(len(l.Heaps))
	c.until, c.most, c.tape_only = C.uint64_t(until), C.uint64_t(most), 0
	if tapeOnly {
		c.tape_only = 1
	}
	c.lent = 1
}

// TakeBack ends that, and tells the counters. False: an equation did not hold.
func (r *Range) TakeBack(c *onerange.Counters) bool {
	*c = *(*onerange.Counters)(unsafe.Pointer(&r.c.now))
	r.c.lent = 0
	return r.c.broken == 0
}

// Close lets go of the arrays, after TakeBack. Nothing can be lent any more.
func (r *Range) Close() {
	r.pinner.Unpin()
	r.shown = arrays{}
}

func data[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func addresses(l *onerange.Lent) arrays {
	return arrays{data(l.Starts), data(l.Gaps), data(l.Spaces), data(l.Blocks), data(l.Heaps)}
}

// places returns where C looks for those addresses, in the same order.
func places(c *C.struct_stalloc_range) arrays {
	return arrays{
		unsafe.Pointer(&c.starts), unsafe.Pointer(&c.gaps), unsafe.Pointer(&c.spaces), unsafe.Pointer(&c.blocks),
		unsafe.Pointer(&c.heaps),
	}
}

// show tells C where the arrays are.
func (r *Range) show(l *onerange.Lent, now *arrays) {
	r.pinner.Unpin()
	for i, to := range places(r.c) {
		r.pinner.Pin(now[i])
		*(*unsafe.Pointer)(to) = now[i]
	}
	c := r.c
	c.base, c.small_limit = C.uint64_t(l.Base), C.uint64_t(l.SmallLimit/mem.Grain)
	c.start_shift = C.uint32_t(l.StartShift)
	r.shown = *now
}
