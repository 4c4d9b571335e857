/* Allocation and free. The quick case of each is a few loads under a lock that
 * is never waited for; what it cannot decide goes to the Go engine. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"
#include "tape.h"

static _Atomic(stalloc_thrower) thrower;
static _Atomic bool logged_unknown, logged_child;
static __thread struct {
	int device;
	void *id;
	struct stalloc_stream *stream;
} recent;

void stalloc_set_thrower(stalloc_thrower t) { atomic_store(&thrower, t); }

static inline struct stalloc_stream *stream_of(int device, void *id) {
	if (STALLOC_LIKELY(recent.stream && recent.device == device && recent.id == id)) return recent.stream;
	struct stalloc_stream *s = stalloc_stream_of(device, id);
	if (s) {
		recent.device = device;
		recent.id = id;
		recent.stream = s;
	}
	return s;
}

static inline uint64_t round_up(uint64_t size) {
	uint64_t n = (size + STALLOC_GRAIN - 1) & ~(uint64_t)(STALLOC_GRAIN - 1);
	return n ? n : STALLOC_GRAIN;
}

static inline void count_in(struct stalloc_stream *s, uint64_t addr, uint64_t rounded, uint64_t asked, uint32_t kind) {
	s->allocations++;
	s->allocated_total += rounded;
	stalloc_count(s->device, (int64_t)rounded, (int64_t)asked, 1);
	stalloc_push(s, addr, rounded, kind);
}

static inline void count_out(struct stalloc_stream *s, uint64_t rounded, uint64_t asked) {
	s->frees++;
	s->freed_total += rounded;
	stalloc_count(s->device, (int64_t)rounded, (int64_t)asked, -1);
}

/* Frees the live slot at a place; the lock is held. A pinned slot stays live
 * and is left to the caller: true. */
static inline bool free_place(struct stalloc_tape *t, uint32_t place, uint64_t addr) {
	uint64_t asked = t->live[place].asked, rounded = round_up(asked);
	bool pinned = t->live[place].flags & STALLOC_PINNED;
	count_out(t->stream, rounded, asked);
	stalloc_push(t->stream, addr, rounded, STALLOC_EV_FREE);
	if (!pinned) stalloc_release(t, place);
	return pinned;
}

static void free_pinned(struct stalloc_tape *t, uint64_t addr) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (e) e->free_pinned(t, addr);
}

/* Performs the frees that other threads announced. The lock is held; it is
 * dropped around the rare pinned ones, which enter the engine. */
static void drain(struct stalloc_tape *t) {
	for (uint32_t next = stalloc_take_deferred(t); next != 0;) {
		uint32_t place = next - 1;
		uint64_t addr = t->state.base + t->offsets[place];
		next = stalloc_next_deferred(t, place);
		if (t->live[place].slot == 0) continue; /* freed twice */
		if (free_place(t, place, addr)) {
			stalloc_unlock(t->stream);
			free_pinned(t, addr);
			stalloc_lock(t->stream);
		}
	}
}

static void unlock_and_drain(struct stalloc_tape *t) {
	struct stalloc_stream *s = t->stream;
	stalloc_unlock(s);
	/* A free may have been announced after the last look: its thread relies on
	 * whoever holds the lock. */
	while (STALLOC_UNLIKELY(STALLOC_RELAXED(t->deferred) != 0) && stalloc_try_lock(s)) {
		drain(t);
		stalloc_unlock(s);
	}
}

static void *out_of_memory(int device, size_t size, const char *why) {
	stalloc_thrower f = atomic_load(&thrower);
	if (device >= 0 && device < STALLOC_MAX_DEVICES) atomic_fetch_add(&stalloc_devices[device].ooms, 1);
	stalloc_fail(STALLOC_ERR_MEMORY, "CUDA out of memory: stalloc could not allocate %zu bytes on device %d: %s", size, device,
		     why);
	if (f) f("stalloc_malloc", "stalloc", 0, stalloc_last_error());
	return NULL;
}

/* The request is a miss: the engine's pool serves it, or the driver. */
static __attribute__((noinline)) void *miss(struct stalloc_stream *s, size_t size, int device, void *stream) {
	char err[4096] = "no reason given";
	uint64_t addr = 0, rounded = round_up(size);
	void *plain = NULL;
	const struct stalloc_engine *e = stalloc_engine();
	int result = STALLOC_ERR_ENGINE;
	if (e) result = e->alloc(device, (uint64_t)(uintptr_t)stream, stalloc_pool_of(&stalloc_devices[device], stream), size, &addr, err,
				 sizeof err);
	if (e && result == STALLOC_ERR_ENGINE) stalloc_engine_give_up(err);
	if (result == STALLOC_ERR_ENGINE) {
		result = stalloc_plain_alloc(device, rounded, &plain, err, sizeof err);
		addr = (uint64_t)(uintptr_t)plain;
	}
	if (result != STALLOC_OK) return out_of_memory(device, size, err);
	stalloc_lock(s);
	count_in(s, addr, rounded, size, STALLOC_EV_MISS);
	stalloc_unlock(s);
	return (void *)(uintptr_t)addr;
}

/* The tape has another request under its cursor, or its guard is not trivially
 * clear. The lock is held. */
static __attribute__((noinline)) uint64_t look_ahead(struct stalloc_tape *t, size_t size) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	drain(t);
	uint64_t addr = stalloc_take(t, round_up(size), size);
	return addr || !e ? addr : e->serve(t, size);
}

void *stalloc_malloc(size_t size, int device, void *stream) {
	if (STALLOC_UNLIKELY(size == 0)) return NULL;
	if (STALLOC_UNLIKELY(!*stalloc_alive && !stalloc_ready())) {
		stalloc_log_once(&logged_child, "allocation in a forked child refused: CUDA does not survive a fork");
		stalloc_fail(STALLOC_ERR_DRIVER, "stalloc cannot be used in a forked child");
		return NULL;
	}
	struct stalloc_stream *s = stream_of(device, stream);
	if (STALLOC_UNLIKELY(!s || size > INT64_MAX / 2))
		return out_of_memory(device, size, s ? "the size is not a size" : "the device does not exist");
	if (STALLOC_UNLIKELY(STALLOC_RELAXED(s->device->pools) && stalloc_pool_of(s->device, stream))) return miss(s, size, device, stream);
	if (STALLOC_UNLIKELY(!stalloc_try_lock(s))) {
		if (__atomic_load_n(&s->tape, __ATOMIC_RELAXED)) atomic_fetch_add_explicit(&s->busy, 1, memory_order_relaxed);
		return miss(s, size, device, stream);
	}
	struct stalloc_tape *t = s->tape;
	if (STALLOC_UNLIKELY(!t)) {
		stalloc_unlock(s);
		return miss(s, size, device, stream);
	}
	uint64_t rounded = round_up(size), addr = stalloc_take(t, rounded, size);
	if (STALLOC_UNLIKELY(!addr)) addr = look_ahead(t, size);
	if (STALLOC_LIKELY(addr)) count_in(s, addr, rounded, size, STALLOC_EV_HIT);
	unlock_and_drain(t);
	return addr ? (void *)(uintptr_t)addr : miss(s, size, device, stream);
}

/* The tape whose arena holds an address, or NULL. Arenas never share addresses,
 * so a stale entry can only match an address that is no block's any more. */
static inline struct stalloc_tape *arena_of(uint64_t addr) {
	uint32_t n = atomic_load_explicit(&stalloc_arena_count, memory_order_acquire);
	for (uint32_t i = 0; i < n; i++) {
		struct stalloc_tape *t = atomic_load_explicit(&stalloc_arenas[i], memory_order_acquire);
		if (t && addr - t->state.base < t->arena_size) return t;
	}
	return NULL;
}

static void unknown(const void *ptr) {
	stalloc_log_once(&logged_unknown, "free of %p, which is not a live block, ignored (a double free?)", ptr);
}

static __attribute__((noinline)) void free_from_pool(void *ptr, int device, void *stream) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	struct stalloc_freed freed;
	struct stalloc_stream *s = stream_of(device, stream);
	if (s) { /* before the block can be handed out again */
		stalloc_lock(s);
		stalloc_push(s, (uint64_t)(uintptr_t)ptr, 0, STALLOC_EV_FREE);
		stalloc_unlock(s);
	}
	if (!(e && e->free((uint64_t)(uintptr_t)ptr, &freed) == STALLOC_OK) && !stalloc_plain_free(ptr, &freed)) {
		unknown(ptr);
		return;
	}
	if (freed.stream != (uint64_t)(uintptr_t)stream || freed.device != device)
		s = stream_of(freed.device, (void *)(uintptr_t)freed.stream);
	if (!s) return;
	stalloc_lock(s);
	count_out(s, freed.rounded, freed.asked);
	stalloc_unlock(s);
}

void stalloc_free(void *ptr, size_t size, int device, void *stream) {
	(void)size;
	if (STALLOC_UNLIKELY(!ptr || !*stalloc_alive)) return;
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	struct stalloc_tape *t = arena_of(addr);
	if (STALLOC_UNLIKELY(!t)) {
		free_from_pool(ptr, device, stream);
		return;
	}
	uint32_t place = stalloc_place(t, addr - t->state.base);
	if (STALLOC_UNLIKELY(place == STALLOC_NONE)) {
		free_from_pool(ptr, device, stream); /* a guest, or nothing of ours */
		return;
	}
	if (STALLOC_UNLIKELY(!stalloc_try_lock(t->stream))) {
		if (!stalloc_defer(t, place)) unknown(ptr);
		if (stalloc_try_lock(t->stream)) { /* its holder may be gone by now */
			drain(t);
			unlock_and_drain(t);
		}
		return;
	}
	bool pinned = false, live = t->live[place].slot != 0;
	if (STALLOC_LIKELY(live)) pinned = free_place(t, place, addr);
	unlock_and_drain(t);
	if (STALLOC_UNLIKELY(pinned)) free_pinned(t, addr);
	if (STALLOC_UNLIKELY(!live)) free_from_pool(ptr, device, stream);
}

void stalloc_record_stream(void *ptr, void *stream) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!ptr || !*stalloc_alive || !e) return;
	struct stalloc_tape *t = arena_of((uint64_t)(uintptr_t)ptr);
	e->record(t, (uint64_t)(uintptr_t)ptr, (uint64_t)(uintptr_t)stream);
}

void *stalloc_base(void *ptr, size_t *size) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	uint64_t start = 0, bytes = 0;
	if (!ptr || !*stalloc_alive || !e || e->base((uint64_t)(uintptr_t)ptr, &start, &bytes) != STALLOC_OK) return NULL;
	if (size) *size = bytes;
	return (void *)(uintptr_t)start;
}
