package main

/*
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "fastpath.h"

static bool host_try_lock(struct stalloc_device *d) {
	if (!stalloc_lock_try_exchange(&d->lock, STALLOC_GO_SPINS)) return false;
	stalloc_drain(d);
	return true;
}
// A thread may have deferred a free just before the unlock; it relies on this check.
static void host_unlock(struct stalloc_device *d) {
	do {
		stalloc_unlock(d);
	} while (atomic_load(&d->deferred_frees) != NULL && host_try_lock(d));
}
static int64_t host_take_load(struct stalloc_device *d, int64_t *most) {
	int64_t now = d->counts.now.of[STALLOC_POOL_ALL][STALLOC_ALLOCATED].current;
	*most = now > d->counts.highest ? now : d->counts.highest;
	return d->counts.highest = now;
}
// Other threads read both without the lock, window first.
static void host_begin(struct stalloc_device *d, uint64_t base, uint64_t window) {
	__atomic_store_n(&d->base, base, __ATOMIC_RELAXED);
	__atomic_store_n(&d->window, window, __ATOMIC_RELEASE);
}
// A thread that holds Python's GIL must not wait.
static bool host_may_wait(void) {
	static _Atomic(void *) check;
	static _Atomic unsigned calls; // a program without Python may load it later
	void *known = atomic_load(&check);
	if (!known && atomic_fetch_add(&calls, 1) % 1024 == 0) atomic_store(&check,
		known = dlsym(RTLD_DEFAULT, "PyGILState_Check"));
	return !known || !((int (*)(void))known)();
}
static bool host_persistent(struct stalloc_device *d, uint64_t id) {
	struct stalloc_stream *s = stalloc_stream_find(d, id);
	return s && atomic_load(&s->persistent);
}
static uint32_t *host_captures(struct stalloc_device *d) { return (uint32_t *)&d->captures; }
static void host_set_budget(struct stalloc_device *d, struct stalloc_budget budget) {
	int64_t active = d->counts.now.of[STALLOC_POOL_ALL][STALLOC_ALLOCATED].current +
		stalloc_pending(d);
	if (active > d->counts.peak_active) d->counts.peak_active = active;
	d->budget = budget;
}
static uint64_t *host_copy(const uint64_t *entries, size_t n) {
	uint64_t *c = malloc(n * sizeof *c);
	return c ? memcpy(c, entries, n * sizeof *c) : NULL;
}
*/
import "C"

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	hosts "stalloc/actors/host"
	"stalloc/cshim/internal/cindex"
	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// host is a device's state that C and Go share: index, cursors, log and the lock over them. It
// implements actors/host.Host.
type host struct {
	device   *C.struct_stalloc_device
	captures *uint32                   // of the device; a call of C for it would take 50 ns
	cursors  map[mem.StreamID]*cursors // under the lock

	mu    sync.Mutex
	spare *C.struct_stalloc_event // an unused array for the log
}

// cursors are the cursors of a stream, with their schedules.
type cursors struct {
	at    *[schedule.Cursors]C.struct_stalloc_cursor
	plays [schedule.Cursors]*hosts.Schedule // keeps them alive while C refers to them
}

func newHost(device *C.struct_stalloc_device) *host {
	return &host{device: device, cursors: map[mem.StreamID]*cursors{},
		captures: (*uint32)(unsafe.Pointer(C.host_captures(device)))}
}

func (h *host) Begin(base mem.Addr, window, small mem.Bytes) {
	h.Lock()
	defer h.Unlock()
	h.device.small_limit = C.uint64_t(small / mem.Grain)
	C.host_begin(h.device, C.uint64_t(base), C.uint64_t(window))
}

func (h *host) Index() index.Index { return cindex.At(unsafe.Pointer(&h.device.index)) }
func (h *host) Captures() int      { return int(atomic.LoadUint32(h.captures)) }

func (h *host) TakeLoad() (now, most mem.Bytes) {
	var highest C.int64_t
	now = mem.Bytes(C.host_take_load(h.device, &highest))
	return now, mem.Bytes(highest)
}

func (h *host) Persistent(id mem.StreamID) bool {
	return id == 0 || bool(C.host_persistent(h.device, C.uint64_t(id)))
}

func (h *host) MayWait() bool { return bool(C.host_may_wait()) }

// Lock implements actors/host.Host. C spins only a few times: the holder may be a goroutine that
// the collector has stopped, and a call from Go must not wait for it in C (cshim/fast/lock.h).
func (h *host) Lock() {
	for n := 0; !C.host_try_lock(h.device); n++ {
		if n < 4 {
			runtime.Gosched()
			continue
		}
		time.Sleep(time.Microsecond << min(n, 10))
	}
}

func (h *host) Unlock() { C.host_unlock(h.device) }

func (h *host) SetBudget(b hosts.Budget) {
	C.host_set_budget(h.device, C.struct_stalloc_budget{
		ops: C.uint64_t(b.Ops), max_units: C.uint64_t(b.MaxSize / mem.Grain),
	})
}

func (h *host) cursorsOf(id mem.StreamID) *cursors {
	t := h.cursors[id]
	if t == nil {
		t = &cursors{at: &h.streamOf(id).cursors}
		h.cursors[id] = t
	}
	return t
}

func (h *host) Next(id mem.StreamID, cursor int, units uint64) schedule.Entry {
	return schedule.Entry(C.cursor_next(&h.cursorsOf(id).at[cursor], C.uint64_t(units)))
}

func (h *host) Count(id mem.StreamID, cursor int, hit bool) {
	if t := &h.cursorsOf(id).at[cursor]; hit {
		t.hits++
	} else if t.n > 0 {
		t.misses++
	}
}

func (h *host) Served(id mem.StreamID) (hits, misses uint64) {
	for _, t := range h.cursorsOf(id).at {
		hits, misses = hits+uint64(t.hits), misses+uint64(t.misses)
	}
	return hits, misses
}

// streamOf returns C's stream; for one that C has not seen, a stream that no request uses.
func (h *host) streamOf(id mem.StreamID) *C.struct_stalloc_stream {
	if s := C.stalloc_stream_find(h.device, C.uint64_t(id)); s != nil {
		return s
	}
	return zeroed[C.struct_stalloc_stream]()
}

// zeroed allocates a zero value in C's memory.
func zeroed[T any]() *T {
	var one T
	return (*T)(C.calloc(1, C.size_t(unsafe.Sizeof(one))))
}

func (h *host) Build(entries []schedule.Entry) *hosts.Schedule {
	if len(entries) == 0 {
		return nil
	}
	c := C.host_copy((*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(entries))),
		C.size_t(len(entries)))
	if c == nil {
		return nil
	}
	r := &hosts.Schedule{Entries: entries, Host: c}
	runtime.AddCleanup(r, func(c *C.uint64_t) { C.free(unsafe.Pointer(c)) }, c)
	return r
}

func (h *host) SetSchedule(id mem.StreamID, cursor int, r *hosts.Schedule) {
	t := h.cursorsOf(id)
	t.plays[cursor] = r
	if r == nil {
		C.cursor_set_schedule(&t.at[cursor], nil, 0)
		return
	}
	C.cursor_set_schedule(&t.at[cursor], r.Host.(*C.uint64_t), C.uint32_t(len(r.Entries)))
}
