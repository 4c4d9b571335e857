package main

/*
#include <stdlib.h>
#include <sys/mman.h>
#include "quick.h"

static bool host_try_lock(struct stalloc_device *d) {
	if (!stalloc_lock_try(&d->lock, STALLOC_PATIENCE)) return false;
	stalloc_drain(d);
	stalloc_sync(d);
	return true;
}
// A free may have been announced after the last look: its thread relies on whoever holds
// the lock.
static void host_unlock(struct stalloc_device *d) {
	do {
		stalloc_unlock(d);
	} while (STALLOC_RELAXED(d->announced) != NULL && host_try_lock(d));
}
// Where another thread has the lock, as of when somebody looked last.
static int64_t host_load(struct stalloc_device *d) {
	if (stalloc_lock_try(&d->lock, 0)) {
		stalloc_fold(d);
		host_unlock(d);
	}
	return __atomic_load_n(&d->counts.allocated, __ATOMIC_RELAXED);
}
static struct stalloc_stream *host_streams(struct stalloc_device *d) { return atomic_load(&d->streams); }
static void host_observe(struct stalloc_log *l, bool on) {
	if (on && !l->events) {
		void *at = mmap(NULL, STALLOC_MOST_EVENTS * sizeof *l->events, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (at != MAP_FAILED) l->events = at;
	}
	stalloc_log_begin(l, on);
}
static void host_lend(struct stalloc_device *d) {
	int64_t active = d->counts.allocated + d->range.now.pending;
	if (active > d->counts.peak_active) d->counts.peak_active = active;
	host_unlock(d);
}
*/
import "C"

import (
	"runtime"
	"time"
	"unsafe"

	"stalloc/actors"
	"stalloc/cshim/internal/loan"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/stream/brief"
	"stalloc/stream/wish"
)

// host is the memory of a device that C and Go share. It implements actors.Host and
// actors.Borrower.
type host struct {
	device *C.struct_stalloc_device
	loan   *loan.Range
	tapes  map[mem.StreamID]*tapes // under the lock
}

// tapes are those of a stream, in C's memory.
type tapes struct {
	wishes [wish.Tapes]wish.Tape
	c      [wish.Tapes]*C.struct_stalloc_tape
	plays  [wish.Tapes]*actors.Reel // which C refers to: so are they kept
}

func newHost(device *C.struct_stalloc_device) *host {
	return &host{device: device, loan: loan.At(unsafe.Pointer(&device._range)), tapes: map[mem.StreamID]*tapes{}}
}

// Load implements actors.Host.
func (h *host) Load() mem.Bytes { return mem.Bytes(C.host_load(h.device)) }

// Lock implements actors.Host. C looks a few times only: the holder may be a goroutine
// that the collector has stopped, and nothing that Go called must wait for it in C
// (cshim/lock.h).
func (h *host) Lock() {
	for n := 0; !C.host_try_lock(h.device); n++ {
		if n < 4 {
			runtime.Gosched()
			continue
		}
		time.Sleep(time.Microsecond << min(n, 10))
	}
}

// Unlock implements actors.Host.
func (h *host) Unlock() { C.host_unlock(h.device) }

// Lend implements actors.Borrower.
func (h *host) Lend(l *onerange.Lent, t actors.Terms) {
	h.loan.Lend(l, t.Until, t.Most, t.TapeOnly)
	C.host_lend(h.device)
}

// TakeBack implements actors.Borrower.
func (h *host) TakeBack(c *onerange.Counters) bool {
	h.Lock()
	return h.loan.TakeBack(c)
}

// Tapes implements actors.Host.
func (h *host) Tapes(id mem.StreamID) *[wish.Tapes]wish.Tape { return &h.tapesOf(id).wishes }

func (h *host) tapesOf(id mem.StreamID) *tapes {
	t := h.tapes[id]
	if t == nil {
		t = &tapes{}
		at := h.streamOf(id)
		for i := range t.c {
			t.c[i] = &at.tapes[i]
			t.wishes[i].State = (*wish.State)(unsafe.Pointer(&t.c[i].state))
		}
		h.tapes[id] = t
	}
	return t
}

// streamOf returns the stream of C's; if C has not seen it, one that serves nobody.
func (h *host) streamOf(id mem.StreamID) *C.struct_stalloc_stream {
	for s := C.host_streams(h.device); s != nil; s = s.next {
		if mem.StreamID(s.id) == id {
			return s
		}
	}
	return zeroed[C.struct_stalloc_stream]()
}

// zeroed makes something in C's memory.
func zeroed[T any]() *T {
	var one T
	return (*T)(C.calloc(1, C.size_t(unsafe.Sizeof(one))))
}

// Build implements actors.Host.
func (h *host) Build(entries []wish.Entry, foreseen bool) *actors.Reel {
	if len(entries) == 0 {
		return nil
	}
	c := C.stalloc_reel_new((*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(entries))), C.uint32_t(len(entries)), C.bool(foreseen))
	if c == nil {
		panic("the host has no memory left for a tape")
	}
	r := &actors.Reel{Entries: entries, Host: c}
	runtime.AddCleanup(r, func(c *C.struct_stalloc_reel) { C.stalloc_reel_free(c) }, c)
	return r
}

// Serve implements actors.Host.
func (h *host) Serve(id mem.StreamID, tape int, r *actors.Reel) {
	t := h.tapesOf(id)
	var entries []wish.Entry
	var c *C.struct_stalloc_reel
	if r != nil {
		entries, c = r.Entries, r.Host.(*C.struct_stalloc_reel)
	}
	if r != t.plays[tape] {
		C.stalloc_tape_play(t.c[tape], c)
		t.plays[tape] = r
	}
	t.wishes[tape].Replace(entries)
}

// Note implements actors.Host.
func (h *host) Note(e wish.Event) {
	C.stalloc_push(&h.device.log, C.uint64_t(e.Addr), C.uint64_t(e.Info))
}

// Events implements actors.Host.
func (h *host) Events() []wish.Event {
	l := &h.device.log
	n := uintptr(unsafe.Pointer(l.next)) - uintptr(unsafe.Pointer(l.events))
	return unsafe.Slice((*wish.Event)(unsafe.Pointer(l.events)), n/unsafe.Sizeof(wish.Event{}))
}

// Clear implements actors.Host.
func (h *host) Clear() uint64 {
	l := &h.device.log
	defer C.stalloc_log_begin(l, l.end != l.events)
	return uint64(l.lost)
}

// Brief implements actors.Host.
func (h *host) Brief(size uint64) bool { return bool(C.stalloc_brief(h.device, C.uint64_t(size))) }

// SetBrief implements actors.Host.
func (h *host) SetBrief(t *brief.Table) { *(*brief.Table)(unsafe.Pointer(&h.device.brief)) = *t }

// Observe implements actors.Host.
func (h *host) Observe(on bool) { C.host_observe(&h.device.log, C.bool(on)) }
