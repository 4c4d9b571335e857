package main

/*
#include <stdlib.h>
#include "arenas.h"
#include <sys/mman.h>
#include <unistd.h>
#include "tape.h"

static bool port_try_lock(struct stalloc_stream *s) {
	if (!stalloc_lock_try(&s->lock, STALLOC_PATIENCE)) return false;
	stalloc_drain(s);
	return true;
}
// A free may have been announced after the last look: its thread relies on whoever
// holds the lock.
static void port_unlock(struct stalloc_stream *s) {
	do {
		stalloc_unlock(s);
	} while (STALLOC_RELAXED(s->announced) != NULL && port_try_lock(s));
}
static void port_drain(struct stalloc_stream *s) { stalloc_drain(s); }
static void port_link(struct stalloc_arenas *a, struct stalloc_tape *t, struct stalloc_tape *instead) {
	stalloc_link(a, t, instead);
}
static void port_serve(struct stalloc_stream *s, struct stalloc_tape *t) { __atomic_store_n(&s->tape, t, __ATOMIC_RELAXED); }
static void port_free(struct stalloc_tape *t) {
	stalloc_unlink(t);
	free(t->index);
	free(t->live);
	free(t->offsets);
	free(t);
}
static void port_hand_out(struct stalloc_stream *s, uint64_t addr, uint64_t asked) {
	stalloc_count_in(s, addr, asked, STALLOC_EV_HIT);
}
static void port_pinned(struct stalloc_tape *t, int n) {
	t->pinned += (uint32_t)n;
	atomic_fetch_add(&t->stream->pinned, (uint32_t)n);
}
static void port_do_not_observe(struct stalloc_stream *s) { s->recording = 0; }
static void port_note_pin(struct stalloc_stream *s, uint64_t addr) { stalloc_push(s, addr, 0, STALLOC_EV_PIN); }
static void port_pending(struct stalloc_device *d, int64_t n) {
	int64_t now = atomic_fetch_add(&d->pending, n) + n;
	stalloc_raise(&d->peak_active, now + stalloc_load_bytes(STALLOC_RELAXED(d->load)));
}
// Memory beyond this step and a few events goes back where far more was used once, so
// that steps of one length, or two in turn, do not have it made anew each time.
static void port_observed(struct stalloc_observed *o) {
	uint64_t keep = o->count > STALLOC_KEPT_EVENTS ? o->count : STALLOC_KEPT_EVENTS;
	if (o->touched < o->count) o->touched = o->count;
	if (keep < o->touched / 2) {
		uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)(o->events + keep) + page - 1) & ~(page - 1);
		madvise((void *)from, (uintptr_t)(o->events + o->touched) - from, MADV_DONTNEED);
		o->touched = keep;
	}
	o->count = 0;
}
*/
import "C"

import (
	"runtime"
	"slices"
	"time"
	"unsafe"

	"stalloc/actors"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// port serves a stream through memory shared with C. It implements actors.Port.
type port struct {
	s     *C.struct_stalloc_stream
	host  *host
	lost  C.uint64_t                              // events, by the stream's count when it was last read
	tapes map[*stream.Tape]*C.struct_stalloc_tape // under the stream's lock
}

func (p *port) ID() mem.StreamID { return mem.StreamID(p.s.id) }

// Lock implements actors.Port. C looks a few times only: the holder may be a goroutine
// that the collector has stopped, and nothing must wait for it in C (cshim/lock.h).
func (p *port) Lock() {
	for n := 0; !C.port_try_lock(p.s); n++ {
		if n < 4 {
			runtime.Gosched()
			continue
		}
		time.Sleep(time.Microsecond << min(n, 10))
	}
}

// Unlock implements actors.Port.
func (p *port) Unlock() { C.port_unlock(p.s) }

// array makes a zeroed array in C's memory and a slice over it.
func array[T any](n int) []T {
	n = max(n, 1)
	var one T
	at := C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(one)))
	if at == nil {
		panic("the host has no memory left for a tape")
	}
	return unsafe.Slice((*T)(at), n)
}

func copied[T any](from []T) []T {
	to := array[T](len(from))
	copy(to, from)
	return to[:len(from)]
}

// Build implements actors.Port.
func (p *port) Build(l *stream.Layout, base mem.Addr, size mem.Bytes) *stream.Tape {
	shared := &array[C.struct_stalloc_tape](1)[0]
	shared.state.base = C.uint64_t(base)
	shared.arena_size = C.uint64_t(size)
	shared.stream = p.s
	index, live := copied(l.Index), array[stream.Live](l.Places)
	offsets := copied(l.Offsets())
	shared.index = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(index)))
	shared.index_mask = C.uint64_t(len(index) - 1)
	shared.live = (*C.struct_stalloc_live)(unsafe.Pointer(unsafe.SliceData(live)))
	shared.offsets = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(offsets)))
	orders := make([][]stream.Entry, len(l.Orders))
	for i, order := range l.Orders {
		orders[i] = copied(order)
	}
	t := stream.Bind(l, orders, live, index, (*stream.State)(unsafe.Pointer(&shared.state)))
	setEntries(shared, t)
	p.tapes[t] = shared
	return t
}

func setEntries(shared *C.struct_stalloc_tape, t *stream.Tape) {
	shared.entries = (*C.struct_stalloc_entry)(unsafe.Pointer(unsafe.SliceData(t.Entries)))
}

// Play implements actors.Port.
func (p *port) Play(t *stream.Tape, order int) {
	C.port_drain(p.s)
	t.Play(order)
	setEntries(p.tapes[t], t)
}

// Turned implements actors.Port.
func (p *port) Turned(t *stream.Tape) { setEntries(p.tapes[t], t) }

// Serve implements actors.Port. Frees that were announced since the tape adopted its
// blocks are performed later: they mean its slots by then.
func (p *port) Serve(t, instead *stream.Tape) {
	shared := p.tapes[t]
	if t != nil { // frees still find the one before
		C.port_link(p.host.e.arenas, shared, p.tapes[instead])
	}
	C.port_serve(p.s, shared)
	if instead != nil {
		p.Drop(instead)
	}
}

// Settle implements actors.Port.
func (p *port) Settle() { C.port_drain(p.s) }

// Drop implements actors.Port. Nobody reads a tape but under the stream's lock.
func (p *port) Drop(t *stream.Tape) {
	for _, order := range t.Orders {
		C.free(unsafe.Pointer(unsafe.SliceData(order)))
	}
	C.port_free(p.tapes[t])
	delete(p.tapes, t)
}

// HandOut implements actors.Port.
func (p *port) HandOut(addr mem.Addr, asked mem.Bytes) {
	C.port_hand_out(p.s, C.uint64_t(addr), C.uint64_t(asked))
}

// Pinned implements actors.Port.
func (p *port) Pinned(t *stream.Tape, n int) { C.port_pinned(p.tapes[t], C.int(n)) }

// notePin observes that another stream uses a block of the pool.
func (p *port) notePin(at mem.Addr) {
	p.Lock()
	defer p.Unlock()
	C.port_note_pin(p.s, C.uint64_t(at))
}

// doNotObserve has no events kept: nobody plans.
func (p *port) doNotObserve() {
	p.Lock()
	defer p.Unlock()
	C.port_do_not_observe(p.s)
}

// Pending implements actors.Port.
func (p *port) Pending(n mem.Bytes) { C.port_pending(p.s.device, C.int64_t(n)) }

// Observed implements actors.Port.
func (p *port) Observed(to []actors.Event) ([]actors.Event, bool) {
	o := &p.s.observed
	to = slices.Grow(to, int(o.count))
	for _, e := range unsafe.Slice(o.events, o.count) {
		to = append(to, actors.Event{Addr: mem.Addr(e.addr), Size: mem.Bytes(e.info >> 8), Kind: actors.EventKind(e.info & 0xff)})
	}
	C.port_observed(o)
	lost := o.lost != p.lost
	p.lost = o.lost
	return to, lost
}
