// Package ctape drives the quick functions of cshim/tape.h from Go, so that a
// test can hold them to stream.Tape event by event. Nothing else uses it.
//
// A Tape here is what a training process has: the arrays lie in C's memory, C
// serves what it can and Go's stream.Tape, bound to the same arrays, serves the
// rest, as cshim/engine does.
package ctape

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../..
#include <stdlib.h>
#include "tape.h"

static struct stalloc_tape *tape_new(uint64_t base, uint64_t size) {
	struct stalloc_tape *t = calloc(1, sizeof *t);
	struct stalloc_device *d = calloc(1, sizeof *d);
	struct stalloc_stream *s = calloc(1, sizeof *s);
	t->state.base = base;
	t->arena_size = size;
	t->stream = s;
	s->device = d;
	s->tape = s->tapes = t;
	s->recording = 1;
	s->observed.events = calloc(STALLOC_MOST_EVENTS, sizeof *s->observed.events);
	return t;
}

static void tape_delete(struct stalloc_tape *t) {
	free(t->stream->observed.events);
	free(t->stream->device);
	free(t->stream);
	free(t);
}

// Performs the announced frees; how many meant no live slot.
static int tape_drain(struct stalloc_tape *t) {
	int unknown = 0;
	stalloc_drain(t->stream);
	for (struct stalloc_announced *n; (n = STALLOC_RELAXED(t->stream->left)); free(n)) {
		unknown += n->addr != 0;
		STALLOC_PUT(t->stream->left, n->next);
	}
	return unknown;
}

static uint64_t tape_alloc(struct stalloc_tape *t, uint64_t asked) {
	tape_drain(t);
	uint64_t addr = stalloc_take(t, stalloc_round(asked), asked);
	if (addr > STALLOC_THE_POOLS) stalloc_count_in(t->stream, addr, asked, STALLOC_EV_HIT);
	return addr;
}

// 0: no live slot starts there; 1: freed; 2: pinned, it stays live.
static int tape_free(struct stalloc_tape *t, uint64_t addr) {
	uint32_t place = stalloc_slot_at(t->stream, addr, &t);
	if (place == STALLOC_NONE) return 0;
	return stalloc_free_place(t, place) ? 2 : 1;
}

static int tape_defer(struct stalloc_tape *t, uint64_t addr) { return stalloc_announce(t->stream, addr); }

static void tape_hand_out(struct stalloc_tape *t, uint64_t addr, uint64_t asked) {
	stalloc_count_in(t->stream, addr, asked, STALLOC_EV_HIT);
}

static int64_t count_load(struct stalloc_device *d) { return STALLOC_RELAXED(d->load); }
static int64_t count_slack(struct stalloc_device *d) { return STALLOC_RELAXED(d->slack); }
*/
import "C"

import (
	"unsafe"

	"stalloc/internal/mem"
	"stalloc/stream"
)

// Tape is a tape served by C and Go together.
type Tape struct {
	Go     *stream.Tape // over the same arrays
	c      *C.struct_stalloc_tape
	arrays []unsafe.Pointer
}

func array[T any](t *Tape, from []T, n int) []T {
	var one T
	at := C.calloc(C.size_t(max(n, 1)), C.size_t(unsafe.Sizeof(one)))
	t.arrays = append(t.arrays, at)
	to := unsafe.Slice((*T)(at), max(n, 1))[:n]
	copy(to, from)
	return to
}

// New places a layout in C's memory. Delete frees it.
func New(l *stream.Layout, base mem.Addr, size mem.Bytes) *Tape {
	t := &Tape{c: C.tape_new(C.uint64_t(base), C.uint64_t(size))}
	index, live := array(t, l.Index, len(l.Index)), array[stream.Live](t, nil, l.Places)
	offsets := array(t, l.Offsets(), l.Places)
	t.c.index = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(index)))
	t.c.index_mask = C.uint64_t(len(index) - 1)
	t.c.live = (*C.struct_stalloc_live)(unsafe.Pointer(unsafe.SliceData(live)))
	t.c.offsets = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(offsets)))
	var orders [][]stream.Entry
	for _, order := range l.Orders {
		orders = append(orders, array(t, order, len(order)))
	}
	t.Go = stream.Bind(l, orders, live, index, (*stream.State)(unsafe.Pointer(&t.c.state)))
	t.setEntries()
	return t
}

// Delete frees C's memory.
func (t *Tape) Delete() {
	for _, at := range t.arrays {
		C.free(at)
	}
	C.tape_delete(t.c)
}

// Turned follows a change of order within a step.
func (t *Tape) Turned() { t.setEntries() }

func (t *Tape) setEntries() {
	t.c.entries = (*C.struct_stalloc_entry)(unsafe.Pointer(unsafe.SliceData(t.Go.Entries)))
}

// Quick serves a request in C. Refused: Go must decide. Pool: the request is the
// pool's, whatever the tape says.
func (t *Tape) Quick(asked mem.Bytes) (at mem.Addr, answer Answer) {
	switch addr := C.tape_alloc(t.c, C.uint64_t(asked)); {
	case addr == 0:
		return 0, Refused
	case addr == C.STALLOC_THE_POOLS:
		return 0, Pool
	default:
		return mem.Addr(addr), Served
	}
}

// Answer is what the quick case says to a request.
type Answer uint8

// The answers of Quick.
const (
	Refused Answer = iota
	Served
	Pool
)

// HandOut counts a block that Go served from the tape, and observes it.
func (t *Tape) HandOut(addr mem.Addr, asked mem.Bytes) {
	C.tape_hand_out(t.c, C.uint64_t(addr), C.uint64_t(asked))
}

// Free frees a live slot in C.
func (t *Tape) Free(addr mem.Addr) (found, pinned bool) {
	r := C.tape_free(t.c, C.uint64_t(addr))
	return r != 0, r == 2
}

// Defer announces the free of a slot, as a thread does that finds the lock
// taken. False: the host has no memory left.
func (t *Tape) Defer(addr mem.Addr) bool { return C.tape_defer(t.c, C.uint64_t(addr)) != 0 }

// Drain performs the announced frees and returns how many were of no live slot.
func (t *Tape) Drain() (unknown int) { return int(C.tape_drain(t.c)) }

// Step is a step boundary; Play one at which another order begins.
func (t *Tape) Step() { t.Drain(); t.Go.Step() }

// Play is a step boundary at which another order is served from now on.
func (t *Tape) Play(order int) {
	t.Drain()
	t.Go.Play(order)
	t.setEntries()
}

// Counts are the device's live blocks, their rounded and their asked sizes.
func (t *Tape) Counts() (blocks int, rounded, asked mem.Bytes) {
	d := t.c.stream.device
	load := C.count_load(d)
	rounded = mem.Bytes(C.stalloc_load_bytes(load))
	return int(C.stalloc_load_blocks(load)), rounded, rounded - mem.Bytes(C.count_slack(d))
}

// Event is one observed event.
type Event struct {
	Addr mem.Addr
	Size mem.Bytes
	Kind uint8
}

// Kinds of events.
const (
	Hit  = C.STALLOC_EV_HIT
	Free = C.STALLOC_EV_FREE
)

// Events takes what was observed.
func (t *Tape) Events() (events []Event) {
	o := &t.c.stream.observed
	for _, e := range unsafe.Slice(o.events, o.count) {
		events = append(events, Event{mem.Addr(e.addr), mem.Bytes(e.info >> 8), uint8(e.info)})
	}
	o.count = 0
	return events
}
