// Package ctape drives the quick cases of cshim/quick.h from Go, so that a test can hold
// them to wish.Tape and onerange.Engine. Nothing else uses it.
package ctape

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../..
#include <stdlib.h>
#include "quick.h"

static struct stalloc_device *device_new(void) {
	struct stalloc_device *d = calloc(1, sizeof *d);
	d->log.events = calloc(STALLOC_MOST_EVENTS, sizeof *d->log.events);
	stalloc_log_begin(&d->log, true);
	return d;
}

static uint64_t quick_alloc(struct stalloc_device *d, struct stalloc_stream *s, uint64_t asked, uint64_t *quick) {
	uint64_t n = stalloc_units_of(asked), at = stalloc_hit(d, &s->tapes[n <= d->range.small_limit], n, asked);
	*quick += at != 0;
	return at ? d->range.base + at : stalloc_serve(d, s, asked);
}

static bool quick_free(struct stalloc_device *d, struct stalloc_stream *s, uint64_t addr, uint64_t size, uint64_t *quick) {
	bool given = stalloc_give(d, s, addr, size);
	*quick += given;
	return given || stalloc_give_slowly(d, s, addr);
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
	free(d->log.events);
	free(d);
}
*/
import "C"

import (
	"unsafe"

	"stalloc/cshim/internal/loan"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// Device is a device with one lock less than a real one: a test has one thread.
type Device struct {
	c       *C.struct_stalloc_device
	loan    *loan.Range
	streams map[mem.StreamID]*Stream
	quick   C.uint64_t
	reels   []*Reel
}

// Reel is a list that a tape may play, and again.
type Reel struct {
	c       *C.struct_stalloc_reel
	Entries []wish.Entry
}

// Stream is a stream and its tapes, which C and Go share.
type Stream struct {
	c     *C.struct_stalloc_stream
	Tapes [wish.Tapes]wish.Tape
}

// New makes a device.
func New() *Device {
	c := C.device_new()
	return &Device{c: c, loan: loan.At(unsafe.Pointer(&c._range)), streams: map[mem.StreamID]*Stream{}}
}

// Close frees it, after TakeBack.
func (d *Device) Close() {
	d.loan.Close()
	for _, s := range d.streams {
		C.free(unsafe.Pointer(s.c))
	}
	for _, r := range d.reels {
		C.stalloc_reel_free(r.c)
	}
	C.device_free(d.c)
}

// Stream returns a stream, made on first sight.
func (d *Device) Stream(id mem.StreamID) *Stream {
	s := d.streams[id]
	if s == nil {
		s = &Stream{c: C.stream_new(d.c, C.uint64_t(id))}
		for i := range s.Tapes {
			s.Tapes[i].State = (*wish.State)(unsafe.Pointer(&s.c.tapes[i].state))
		}
		d.streams[id] = s
	}
	return s
}

// Build makes a reel, which Close frees. Of no entries it plays nothing. One for the tape Foreseen
// is for no other.
func (d *Device) Build(entries []wish.Entry, foreseen bool) *Reel {
	r := &Reel{Entries: entries}
	if len(entries) > 0 { // as the host does
		r.c = C.stalloc_reel_new((*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(entries))), C.uint32_t(len(entries)), C.bool(foreseen))
		d.reels = append(d.reels, r)
	}
	return r
}

// Play begins a tape with a reel.
func (d *Device) Play(id mem.StreamID, tape int, r *Reel) {
	s := d.Stream(id)
	if t := &s.c.tapes[tape]; t.reel != r.c {
		C.stalloc_tape_play(t, r.c)
	}
	s.Tapes[tape].Replace(r.Entries)
}

// Lend gives the state of an engine to C.
func (d *Device) Lend(l *onerange.Lent, until, most uint64, tapeOnly bool) {
	d.loan.Lend(l, until, most, tapeOnly)
}

// TakeBack ends that. False: an equation did not hold.
func (d *Device) TakeBack(c *onerange.Counters) bool {
	C.stalloc_sync(d.c)
	return d.loan.TakeBack(c)
}

// Sync has the range know everything, as before Go has the lock.
func (d *Device) Sync() { C.stalloc_sync(d.c) }

// Alloc serves a request as a C thread does. Zero: Go must.
func (d *Device) Alloc(id mem.StreamID, asked mem.Bytes) mem.Addr {
	return mem.Addr(C.quick_alloc(d.c, d.Stream(id).c, C.uint64_t(asked), &d.quick))
}

// Free frees a block as a C thread does that says of what size it is, or something else.
// False: Go must.
func (d *Device) Free(id mem.StreamID, at mem.Addr, size mem.Bytes) bool {
	return bool(C.quick_free(d.c, d.Stream(id).c, C.uint64_t(at), C.uint64_t(size), &d.quick))
}

// Announce frees blocks as threads do that find the lock taken, one after the other, until whoever
// has it looks.
func (d *Device) Announce(at ...mem.Addr) {
	for _, addr := range at {
		C.stalloc_announce(d.c, C.uint64_t(addr))
	}
	C.stalloc_drain(d.c)
}

// SetBrief says which blocks are brief.
func (d *Device) SetBrief(t *brief.Table) { *(*brief.Table)(unsafe.Pointer(&d.c.brief)) = *t }

// Brief reports whether the next request, if it is for so many bytes, is for a brief block.
func (d *Device) Brief(asked mem.Bytes) bool {
	return bool(C.stalloc_brief(d.c, C.stalloc_units_of(C.uint64_t(asked))))
}

// Quick returns how many requests and frees nothing but a tape was looked at for.
func (d *Device) Quick() int { return int(d.quick) }

// Counts returns the rounded bytes and the number of live blocks.
func (d *Device) Counts() (allocated mem.Bytes, blocks int) {
	C.stalloc_fold(d.c)
	return mem.Bytes(d.c.counts.allocated), int(d.c.counts.blocks)
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
func (d *Device) Events() []wish.Event {
	C.stalloc_fold(d.c)
	l := &d.c.log
	n := int(uintptr(unsafe.Pointer(l.next))-uintptr(unsafe.Pointer(l.events))) / int(unsafe.Sizeof(wish.Event{}))
	events := append([]wish.Event(nil), unsafe.Slice((*wish.Event)(unsafe.Pointer(l.events)), n)...)
	C.stalloc_log_begin(l, true)
	return events
}
