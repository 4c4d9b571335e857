/* Allocation and free. The quick case of each is a few loads under a lock that
 * is never waited for; what it cannot decide goes to the Go engine. */
#include <stdio.h>
#include <string.h>

#include "pool.h"
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

static void free_from_pool(void *ptr, int device, void *stream);

__attribute__((noinline)) void stalloc_free_strays(struct stalloc_stream *s) {
	uint64_t strays[STALLOC_MAX_STRAYS];
	stalloc_lock(s);
	uint32_t n = STALLOC_RELAXED(s->stray_count);
	memcpy(strays, s->strays, n * sizeof *strays);
	STALLOC_PUT(s->stray_count, 0);
	stalloc_unlock(s);
	for (uint32_t i = 0; i < n; i++)
		free_from_pool((void *)(uintptr_t)strays[i], s->device->ordinal, (void *)(uintptr_t)s->id);
}

static inline void unlock_and_drain(struct stalloc_tape *t) {
	struct stalloc_stream *s = t->stream;
	stalloc_unlock(s);
	/* A free may have been announced after the last look: its thread relies on
	 * whoever holds the lock. */
	while (STALLOC_UNLIKELY(STALLOC_RELAXED(t->deferred) != 0) && stalloc_try_lock(s)) {
		stalloc_drain(t);
		stalloc_unlock(s);
	}
	if (STALLOC_UNLIKELY(STALLOC_RELAXED(s->stray_count) != 0)) stalloc_free_strays(s);
}

/* Says why there is no block. The first words are those that training code looks
 * for when memory runs out. */
static void *refuse(int result, int device, size_t size, const char *why) {
	stalloc_thrower f = atomic_load(&thrower);
	if (result == STALLOC_ERR_MEMORY) {
		atomic_fetch_add(&stalloc_devices[device].ooms, 1);
		stalloc_fail(result, "CUDA out of memory. Tried to allocate %.2f MiB (%zu bytes) on device %d: %s", (double)size / (1 << 20),
			     size, device, why);
	} else {
		stalloc_fail(result, "stalloc could not allocate %zu bytes on device %d: %s", size, device, why);
	}
	if (f) f("stalloc_malloc", "stalloc", 0, stalloc_last_error());
	return NULL;
}

/* Not the quick case: the engine looks ahead on the tape, then asks its pool. */
static __attribute__((noinline)) void *slow(struct stalloc_stream *s, size_t size, uint64_t pool) {
	char err[4096]; /* not cleared: that would take longer than much of what follows */
	uint64_t addr = 0;
	void *plain = NULL;
	strcpy(err, "no reason given");
	int hit = 0, result = STALLOC_ERR_ENGINE, device = s->device->ordinal;
	const struct stalloc_engine *e = stalloc_engine(device);
	if (e) result = e->alloc(s, pool, size, &addr, &hit, err, sizeof err);
	if (e && result == STALLOC_ERR_ENGINE) stalloc_engine_give_up(device, err);
	if (result == STALLOC_ERR_ENGINE) {
		result = stalloc_plain_alloc(device, size, &plain, err, sizeof err);
		addr = (uint64_t)(uintptr_t)plain;
	}
	if (result != STALLOC_OK) return refuse(result, device, size, err);
	if (!hit) {
		stalloc_lock(s);
		stalloc_count_in(s, addr, size, STALLOC_EV_MISS);
		if (pool == 0 && !plain) s->known = 1;
		stalloc_unlock(s);
	}
	return (void *)(uintptr_t)addr;
}

/* The pool, if the engine lends it and it serves a stream without a tape, whose
 * lock is held: a tape has to hear of every request, and of the frees of what the
 * pool served instead. End with pool_leave. */
static inline struct stalloc_pool *borrow(struct stalloc_stream *s) {
	struct stalloc_pool *p = atomic_load_explicit(&s->device->pool, memory_order_acquire);
	if (!p || s->tape || !s->known || !pool_try(p)) return NULL;
	if (STALLOC_UNLIKELY(s->heap == 0)) s->heap = pool_heap_of(p, s->id);
	return p;
}

/* Serves a request from free memory of the pool, 0: the engine must. */
static inline uint64_t take_from_pool(struct stalloc_stream *s, uint64_t asked) {
	struct stalloc_pool *p = borrow(s);
	if (!p) return 0;
	uint64_t addr = s->heap ? pool_alloc(p, s->heap, stalloc_round(asked), asked) : 0;
	pool_leave(p);
	if (addr) stalloc_count_in(s, addr, asked, STALLOC_EV_MISS);
	return addr;
}

/* Takes a block back that take_from_pool handed out. */
static inline bool give_to_pool(struct stalloc_stream *s, uint64_t addr) {
	uint64_t rounded = 0, asked = 0;
	bool done = false;
	if (!stalloc_try_lock(s)) return false;
	struct stalloc_pool *p = borrow(s);
	if (p) {
		done = pool_free(p, s->id, addr, &rounded, &asked);
		pool_leave(p);
	}
	if (done) { /* nobody else can have been given the address: that takes the lock */
		stalloc_push(s, addr, 0, STALLOC_EV_FREE);
		stalloc_count_out(s, rounded, asked);
	}
	stalloc_unlock(s);
	return done;
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
		return refuse(STALLOC_ERR_ARGUMENT, device, size, s ? "no block is that large" : "there is no such device");
	if (STALLOC_UNLIKELY(STALLOC_RELAXED(s->device->pools))) {
		uint64_t pool = stalloc_pool_of(s->device, stream);
		if (pool) return slow(s, size, pool);
	}
	if (STALLOC_UNLIKELY(!stalloc_try_lock(s))) {
		if (__atomic_load_n(&s->tape, __ATOMIC_RELAXED)) atomic_fetch_add_explicit(&s->busy, 1, memory_order_relaxed);
		return slow(s, size, STALLOC_POOL_ONLY);
	}
	struct stalloc_tape *t = s->tape;
	uint64_t addr = 0;
	if (STALLOC_LIKELY(t)) {
		stalloc_drain(t);
		addr = stalloc_take(t, stalloc_round(size), size);
		if (STALLOC_LIKELY(addr > STALLOC_THE_POOLS)) stalloc_count_in(s, addr, size, STALLOC_EV_HIT);
		unlock_and_drain(t);
	} else {
		addr = take_from_pool(s, size);
		stalloc_unlock(s);
	}
	if (STALLOC_LIKELY(addr > STALLOC_THE_POOLS)) return (void *)(uintptr_t)addr;
	return slow(s, size, addr == STALLOC_THE_POOLS ? STALLOC_POOL_ONLY : 0);
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

static void free_pinned(uint64_t addr, uint64_t asked) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (e) e->free_pinned(addr, asked);
}

static void unknown(const void *ptr) {
	stalloc_log_once(&logged_unknown, "free of %p, which is not a live block, ignored (a double free?)", ptr);
}

static __attribute__((noinline)) void free_from_pool(void *ptr, int device, void *stream) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	struct stalloc_freed freed;
	struct stalloc_stream *s = stream_of(device, stream);
	if (s && give_to_pool(s, (uint64_t)(uintptr_t)ptr)) return;
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
	stalloc_count_out(s, freed.rounded, freed.asked);
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
		if (atomic_load_explicit(&t->pinned, memory_order_relaxed) == 0) {
			if (!stalloc_defer(t, place)) unknown(ptr);
			if (stalloc_try_lock(t->stream)) unlock_and_drain(t); /* its holder may be gone by now */
			return;
		}
		stalloc_lock(t->stream); /* it may be pinned: that needs an answer now */
	}
	if (STALLOC_UNLIKELY(t->heir)) { /* replaced since it was looked up */
		t = stalloc_heir(t);
		if ((place = stalloc_place(t, addr - t->state.base)) == STALLOC_NONE) {
			stalloc_unlock(t->stream);
			free_from_pool(ptr, device, stream);
			return;
		}
	}
	bool pinned = false, live = t->live[place].slot != 0;
	uint64_t asked = t->live[place].asked;
	if (STALLOC_LIKELY(live)) pinned = stalloc_free_place(t, place);
	unlock_and_drain(t);
	if (STALLOC_UNLIKELY(pinned)) free_pinned(addr, asked);
	if (STALLOC_UNLIKELY(!live)) free_from_pool(ptr, device, stream);
}

void stalloc_record_stream(void *ptr, void *stream) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	uint64_t addr = (uint64_t)(uintptr_t)ptr, id = (uint64_t)(uintptr_t)stream;
	if (!ptr || !*stalloc_alive || !e) return;
	struct stalloc_tape *t = arena_of(addr);
	if (e->record(addr, id) != STALLOC_OK || !t || t->stream->id == id) return;
	/* The engine tells the planner about blocks of its pool. */
	stalloc_lock(t->stream);
	stalloc_push(t->stream, addr, 0, STALLOC_EV_PIN);
	stalloc_unlock(t->stream);
}

void *stalloc_base(void *ptr, size_t *size) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	uint64_t start = 0, bytes = 0;
	if (!ptr || !*stalloc_alive || !e || e->base((uint64_t)(uintptr_t)ptr, &start, &bytes) != STALLOC_OK) return NULL;
	if (size) *size = bytes;
	return (void *)(uintptr_t)start;
}
