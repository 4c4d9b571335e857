// Package cquick drives the fast path (cshim/fast/fastpath.h) from Go, so that a test can compare
// it with schedule.Cursor and with an onerange.Engine over the model. Nothing else uses it.
package cquick

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../../fast
#include <stdlib.h>
#include "fastpath.h"

static struct stalloc_device *device_new(void) {
	struct stalloc_device *d = calloc(1, sizeof *d);
	d->log.events = calloc(STALLOC_MAX_EVENTS, sizeof *d->log.events);
	stalloc_log_begin(&d->log, true);
	return d;
}

static struct stalloc_stream *stream_new(struct stalloc_device *d, uint64_t id) {
	struct stalloc_stream *s = calloc(1, sizeof *s);
	s->id = id;
	s->device = d;
	s->next = d->streams;
	d->streams = s;
	return s;
}

static void device_free(struct stalloc_device *d) {
	free(d->index.arenas), free(d->index.gaps), free(d->index.blocks), free(d->index.starts);
	free(d->log.events);
	free(d);
}
*/
import "C"

import (
	"unsafe"

	"stalloc/cshim/internal/cindex"
	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Device is a device without a lock: a test has one thread.
type Device struct {
	c       *C.struct_stalloc_device
	streams map[mem.StreamID]*C.struct_stalloc_stream
}

// New makes a device whose window begins at base.
func New(base mem.Addr, small mem.Bytes) *Device {
	c := C.device_new()
	c.base, c.small_limit = C.uint64_t(base), C.uint64_t(small/mem.Grain)
	return &Device{c: c, streams: map[mem.StreamID]*C.struct_stalloc_stream{}}
}

// Index returns the index of its range.
func (d *Device) Index() index.Index { return cindex.At(unsafe.Pointer(&d.c.index)) }

// Close frees it.
func (d *Device) Close() {
	for _, s := range d.streams {
		for i := range s.cursors {
			C.free(unsafe.Pointer(s.cursors[i].entries))
		}
		C.free(unsafe.Pointer(s))
	}
	C.device_free(d.c)
}

// stream returns a stream, made on first sight.
func (d *Device) stream(id mem.StreamID) *C.struct_stalloc_stream {
	s := d.streams[id]
	if s == nil {
		s = C.stream_new(d.c, C.uint64_t(id))
		d.streams[id] = s
	}
	return s
}

// Play sets the schedule of a cursor.
func (d *Device) Play(id mem.StreamID, cursor int, entries []schedule.Entry) {
	t := &d.stream(id).cursors[cursor]
	C.free(unsafe.Pointer(t.entries))
	c := (*C.uint64_t)(C.calloc(C.size_t(len(entries)+1), C.sizeof_uint64_t))
	copy(unsafe.Slice((*schedule.Entry)(unsafe.Pointer(c)), len(entries)), entries)
	C.cursor_set_schedule(t, c, C.uint32_t(len(entries)))
}

// Cursor returns what a cursor knows.
func (d *Device) Cursor(id mem.StreamID, cursor int) (at int, diverged bool, hits, misses uint64) {
	t := &d.stream(id).cursors[cursor]
	return int(t.at), bool(t.diverged), uint64(t.hits), uint64(t.misses)
}

// Next is the cursor's answer to a request that Go serves, and Count what came of it.
func (d *Device) Next(id mem.StreamID, cursor int, units uint64) schedule.Entry {
	// an array is copied where a call takes the address of its element
	t := &d.stream(id).cursors[cursor]
	return schedule.Entry(C.cursor_next(t, C.uint64_t(units)))
}

// Count tells the cursor whether such a request was served at its planned offset.
func (d *Device) Count(id mem.StreamID, cursor int, hit bool) {
	if t := &d.stream(id).cursors[cursor]; hit {
		t.hits++
	} else if t.n > 0 {
		t.misses++
	}
}

// Allow sets how many requests and frees C may serve.
func (d *Device) Allow(left uint64) {
	d.c.budget = C.struct_stalloc_budget{ops: C.uint64_t(left), max_units: C.uint64_t(1 << 40)}
}

// Alloc serves a request as a C thread does. Zero: Go must.
func (d *Device) Alloc(id mem.StreamID, asked mem.Bytes) mem.Addr {
	return mem.Addr(C.stalloc_fast_alloc(d.c, d.stream(id), C.uint64_t(asked)))
}

// Free frees a block as a C thread does. False: Go must.
func (d *Device) Free(at mem.Addr) bool { return bool(C.stalloc_fast_free(d.c, C.uint64_t(at))) }

// Defer frees blocks as threads do that find the lock taken, one after the other, and drains them
// as its holder does.
func (d *Device) Defer(at ...mem.Addr) {
	for _, addr := range at {
		C.stalloc_defer_free(d.c, C.uint64_t(addr))
	}
	C.stalloc_drain(d.c)
}

// Counts returns the rounded bytes and the number of live blocks.
func (d *Device) Counts() (allocated mem.Bytes, blocks int) {
	now := &d.c.counts.now.of[C.STALLOC_POOL_ALL]
	return mem.Bytes(now[C.STALLOC_ALLOCATED].current), int(now[C.STALLOC_BLOCKS].current)
}

// Served counts a block that Go has served, Freed one that Go has freed.
func (d *Device) Served(asked mem.Bytes) {
	C.stalloc_count_in(d.c, C.int64_t(mem.Round(asked)), C.int64_t(asked))
}

// Freed counts a block out.
func (d *Device) Freed(asked mem.Bytes) {
	C.stalloc_count_out(d.c, C.int64_t(mem.Round(asked)), C.int64_t(asked))
}

// Events returns and clears the log.
func (d *Device) Events() []schedule.Event {
	l := &d.c.log
	bytes := uintptr(unsafe.Pointer(l.next)) - uintptr(unsafe.Pointer(l.events))
	n := int(bytes / unsafe.Sizeof(schedule.Event{}))
	events := append([]schedule.Event(nil),
		unsafe.Slice((*schedule.Event)(unsafe.Pointer(l.events)), n)...)
	C.stalloc_log_begin(l, true)
	return events
}
