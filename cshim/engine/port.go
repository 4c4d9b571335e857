package main

/*
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "tape.h"

static void port_lock(struct stalloc_stream *s) {
	stalloc_lock(s);
	if (s->tape) stalloc_drain(s->tape);
}
static void port_unlock(struct stalloc_stream *s) { stalloc_unlock(s); }
static void port_drain(struct stalloc_tape *t) { stalloc_drain(t); }
static void port_hand_out(struct stalloc_stream *s, uint64_t addr, uint64_t asked) {
	stalloc_count_in(s, addr, asked, STALLOC_EV_HIT);
}
static void port_pinned(struct stalloc_tape *t, int n) { atomic_fetch_add(&t->pinned, (uint32_t)n); }
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
	"slices"
	"sync"
	"unsafe"

	"stalloc/actors"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// port serves a stream through memory shared with C. It implements actors.Port.
type port struct {
	s    *C.struct_stalloc_stream
	host *host
	lost C.uint64_t // events, by the stream's count when it was last read
	// Under the stream's lock: tapes that others have replaced, boundaries so far.
	old     []retired
	settled int

	mu    sync.Mutex
	tapes map[*stream.Tape]*C.struct_stalloc_tape
}

func (p *port) ID() mem.StreamID { return mem.StreamID(p.s.id) }
func (p *port) Lock()            { C.port_lock(p.s) }
func (p *port) Unlock()          { C.port_unlock(p.s) }

func (p *port) shared(t *stream.Tape) *C.struct_stalloc_tape {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tapes[t]
}

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
	offsets, deferred := copied(l.Offsets()), array[uint32](l.Places)
	shared.index = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(index)))
	shared.index_mask = C.uint64_t(len(index) - 1)
	shared.live = (*C.struct_stalloc_live)(unsafe.Pointer(unsafe.SliceData(live)))
	shared.offsets = (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(offsets)))
	*(*unsafe.Pointer)(unsafe.Pointer(&shared.deferred_next)) = unsafe.Pointer(unsafe.SliceData(deferred))
	orders := make([][]stream.Entry, len(l.Orders))
	for i, order := range l.Orders {
		orders[i] = copied(order)
	}
	t := stream.Bind(l, orders, live, index, (*stream.State)(unsafe.Pointer(&shared.state)))
	setEntries(shared, t)
	p.mu.Lock()
	p.tapes[t] = shared
	p.mu.Unlock()
	return t
}

func setEntries(shared *C.struct_stalloc_tape, t *stream.Tape) {
	shared.entries = (*C.struct_stalloc_entry)(unsafe.Pointer(unsafe.SliceData(t.Entries)))
}

// Play implements actors.Port.
func (p *port) Play(t *stream.Tape, order int) {
	shared := p.shared(t)
	C.port_drain(shared)
	t.Play(order)
	setEntries(shared, t)
}

// Turned implements actors.Port.
func (p *port) Turned(t *stream.Tape) { setEntries(p.shared(t), t) }

// Serve implements actors.Port. Frees announced for the tape that was served
// are performed first.
func (p *port) Serve(t, instead *stream.Tape) {
	if p.s.tape != nil {
		C.port_drain(p.s.tape)
	}
	shared := p.shared(t)
	switch {
	case t == nil: // frees still find it
	case instead == nil:
		p.host.e.publish(shared)
	default:
		old := p.shared(instead)
		p.host.e.republish(old, shared)
		old.heir = shared
		p.forget(instead)
		p.old = append(p.old, retired{tape: instead, shared: old, since: p.settled})
	}
	p.s.tape = shared
}

// A thread may hold a tape that was replaced, on its way to free a block: it has
// looked the arena up and not yet taken the lock. The arrays of such a tape stay
// for keepBoundaries steps, which no thread spends between two instructions.
const keepBoundaries = 64

type retired struct {
	tape   *stream.Tape
	shared *C.struct_stalloc_tape
	since  int
}

// Settle implements actors.Port. It is called once or twice a step.
func (p *port) Settle() {
	p.settled++
	p.mu.Lock()
	for _, t := range p.tapes {
		C.port_drain(t)
	}
	p.mu.Unlock()
	kept := p.old[:0]
	for _, r := range p.old {
		C.port_drain(r.shared)
		if p.settled-r.since < keepBoundaries {
			kept = append(kept, r)
			continue
		}
		release(r.tape, r.shared)
	}
	clear(p.old[len(kept):])
	p.old = kept
}

func (p *port) forget(t *stream.Tape) {
	p.mu.Lock()
	delete(p.tapes, t)
	p.mu.Unlock()
}

// Drop implements actors.Port. The header stays for good and the arrays for a
// while: a thread may be reading them.
func (p *port) Drop(t *stream.Tape) {
	shared := p.shared(t)
	p.host.e.unpublish(shared)
	p.forget(t)
	p.old = append(p.old, retired{tape: t, shared: shared, since: p.settled})
}

// release frees the arrays of a tape.
func release(t *stream.Tape, shared *C.struct_stalloc_tape) {
	for _, order := range t.Orders {
		C.free(unsafe.Pointer(unsafe.SliceData(order)))
	}
	for _, at := range []unsafe.Pointer{unsafe.Pointer(shared.index), unsafe.Pointer(shared.live), unsafe.Pointer(shared.offsets),
		*(*unsafe.Pointer)(unsafe.Pointer(&shared.deferred_next))} {
		C.free(at)
	}
}

// HandOut implements actors.Port.
func (p *port) HandOut(addr mem.Addr, asked mem.Bytes) {
	C.port_hand_out(p.s, C.uint64_t(addr), C.uint64_t(asked))
}

// Pinned implements actors.Port.
func (p *port) Pinned(t *stream.Tape, n int) { C.port_pinned(p.shared(t), C.int(n)) }

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
