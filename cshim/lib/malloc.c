/* Allocation and free. The quick case of each is a few loads under the device's lock, which
 * a free never waits for; what it cannot decide goes to the Go engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "deferred.h"

static _Atomic(stalloc_thrower) thrower;
static _Atomic bool logged_child, logged_conf;

/* The stream that the thread used last. The first request is of another. */
static struct stalloc_device nothing;
static struct stalloc_stream nobody = {.device = &nothing};
static __thread struct {
	int device;
	void *id;
	struct stalloc_stream *stream;
	struct stalloc_device *of;
	struct stalloc_owner *owner; /* as which the thread owns the lock of its device, or one of no lock */
} recent = {.device = -1, .id = &nobody, .stream = &nobody, .of = &nothing};
static __thread struct stalloc_owner none;

void stalloc_set_thrower(stalloc_thrower t) { atomic_store(&thrower, t); }

/* Not the quick case: whether the thread has become an owner is found here, too. */
static struct stalloc_stream *stream_of(int device, void *id) {
	struct stalloc_stream *s = recent.stream;
	if ((recent.device != device || recent.id != id) && !(s = stalloc_stream_of(device, id))) return NULL;
	recent.device = device;
	recent.id = id;
	recent.stream = s;
	recent.of = s->device;
	if (!(recent.owner = stalloc_lock_mine(&s->device->lock))) recent.owner = &none;
	if (STALLOC_UNLIKELY(stalloc_region() != 0)) stalloc_look_again();
	return s;
}

void stalloc_look_again(void) { recent.id = &nobody; }

/* Whether there is something to do for whoever has left the lock. What is undone can wait. */
static inline bool announced(struct stalloc_device *d) { return STALLOC_RELAXED(d->announced) != NULL; }

static __attribute__((noinline)) void *settled(struct stalloc_device *d, void *result) {
	if (stalloc_try_lock(d)) stalloc_unlock_and_drain(d);
	return result;
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

/* Not the quick case: the engine. A request of a private pool is under way until here: a thrower
 * does not come back. */
static __attribute__((noinline)) void *slow(struct stalloc_stream *s, size_t size, struct stalloc_flight *f) {
	char err[4096]; /* not cleared: that would take longer than much of what follows */
	uint64_t addr = 0, pool = f ? f->pool : 0;
	void *plain = NULL;
	strcpy(err, "no reason given");
	int result = STALLOC_ERR_ENGINE, device = s->device->ordinal;
	const struct stalloc_engine *e = stalloc_engine(device);
	if (e) result = e->alloc(s, pool, size, &addr, err, sizeof err);
	if (result == STALLOC_ERR_MEMORY && stalloc_settle(s->device)) /* frees that nobody had looked at */
		result = e->alloc(s, pool, size, &addr, err, sizeof err);
	if (e && result == STALLOC_ERR_ENGINE) stalloc_engine_give_up(device, err);
	if (result == STALLOC_ERR_ENGINE) {
		stalloc_engine_tell_given_up(device);
		result = stalloc_plain_alloc(device, size, &plain, err, sizeof err);
		addr = (uint64_t)(uintptr_t)plain;
	}
	if (f) stalloc_pool_leave(f);
	if (result != STALLOC_OK) return refuse(result, device, size, err);
	stalloc_count(s->device, true, size);
	return (void *)(uintptr_t)addr;
}

#define MOST ((uint64_t)INT64_MAX / 2) /* bytes */

/* A request for which the lock is to be taken. */
static __attribute__((noinline)) void *serve(struct stalloc_device *d, struct stalloc_stream *s, size_t size) {
	stalloc_lock(d);
	stalloc_drain(d);
	uint64_t addr = stalloc_serve(d, s, size);
	stalloc_unlock_and_drain(d);
	return addr ? (void *)(uintptr_t)addr : slow(s, size, NULL);
}

/* The first request of a thread on a stream, and one that there is something about. */
static __attribute__((noinline)) void *serve_first(size_t size, int device, void *stream) {
	if (size == 0) return NULL;
	if (!*stalloc_alive && !stalloc_ready()) {
		stalloc_log_once(&logged_child, "allocation in a forked child refused: CUDA does not survive a fork");
		stalloc_fail(STALLOC_ERR_DRIVER, "stalloc cannot be used in a forked child");
		return NULL;
	}
	const char *problem = stalloc_conf_problem();
	if (STALLOC_UNLIKELY(problem != NULL)) { /* told before anything has run: a limit that was meant may not be left out */
		stalloc_log_once(&logged_conf, "%s. Nothing is allocated until that is corrected", problem);
		return refuse(STALLOC_ERR_CONF, device, size, problem);
	}
	struct stalloc_stream *s = stream_of(device, stream);
	if (!s) return refuse(STALLOC_ERR_ARGUMENT, device, size, "there is no such device");
	if (size - 1 >= MOST) return refuse(STALLOC_ERR_MEMORY, device, size, "no block can be that large");
	struct stalloc_flight f;
	stalloc_pool_enter(&f, s->device, stream);
	return f.pool ? slow(s, size, &f) : serve(s->device, s, size);
}

/* What a thread does all the time: it owns the lock, and a plan or a gap serves. In a
 * forked child, and while there are private pools, nobody owns a lock. */
void *stalloc_malloc(size_t size, int device, void *stream) {
	struct stalloc_stream *s = recent.stream;
	struct stalloc_device *d = recent.of;
	struct stalloc_owner *o = recent.owner;
	if (STALLOC_UNLIKELY(recent.device != device || recent.id != stream || size - 1 >= MOST || !stalloc_lock_enter(&d->lock, o)))
		return serve_first(size, device, stream);
	uint64_t addr = stalloc_serve(d, s, size);
	stalloc_lock_leave(o);
	if (STALLOC_UNLIKELY(addr == 0)) return serve(d, s, size);
	if (STALLOC_UNLIKELY(announced(d))) return settled(d, (void *)(uintptr_t)addr);
	return (void *)(uintptr_t)addr;
}

/* A free for which the lock is to be taken; or, if another thread has it, told to that. */
static __attribute__((noinline)) void give(struct stalloc_device *d, uint64_t addr) {
	if (!stalloc_try_lock(d)) {
		if (stalloc_announce(d, addr)) {
			if (stalloc_try_lock(d)) stalloc_unlock_and_drain(d); /* its holder may be gone by now */
			return;
		}
		stalloc_lock(d);
	}
	bool done = stalloc_give(d, addr);
	stalloc_unlock_and_drain(d);
	if (STALLOC_UNLIKELY(!done)) stalloc_free_in_engine(addr, false); /* other streams use it, or it is not the range's */
}

void stalloc_free_at(struct stalloc_device *d, uint64_t addr) { give(d, addr); }

static __attribute__((noinline)) void give_first(uint64_t addr, int device, void *stream) {
	if (!addr || !*stalloc_alive) return;
	struct stalloc_stream *s = stream_of(device, stream);
	if (s)
		give(s->device, addr);
	else
		stalloc_free_in_engine(addr, false); /* it knows the block's device */
}

void stalloc_free(void *ptr, size_t size, int device, void *stream) {
	struct stalloc_device *d = recent.of;
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	struct stalloc_owner *o = recent.owner;
	(void)size;
	if (STALLOC_UNLIKELY(recent.device != device || recent.id != stream || !stalloc_lock_enter(&d->lock, o))) {
		give_first(addr, device, stream);
		return;
	}
	bool done = stalloc_give(d, addr);
	stalloc_lock_leave(o);
	if (STALLOC_UNLIKELY(!done && addr != 0)) give(d, addr);
	if (STALLOC_UNLIKELY(announced(d))) settled(d, NULL);
}

void stalloc_lasting_stream(int device, void *stream) {
	/* A forked child may have inherited the streams' lock as taken. */
	struct stalloc_stream *s = stalloc_ready() ? stalloc_stream_of(device, stream) : NULL;
	if (s) atomic_store(&s->lasting, true);
}

void stalloc_record_stream(void *ptr, void *stream) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!ptr || !e) return;
	e->record((uint64_t)(uintptr_t)ptr, (uint64_t)(uintptr_t)stream);
}

void *stalloc_base(void *ptr, size_t *size) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	uint64_t start = 0, bytes = 0;
	if (!ptr || !*stalloc_alive) return NULL;
	if (!(e && e->base((uint64_t)(uintptr_t)ptr, &start, &bytes) == STALLOC_OK) &&
	    !stalloc_plain_base((uint64_t)(uintptr_t)ptr, &start, &bytes))
		return NULL;
	if (size) *size = bytes;
	return (void *)(uintptr_t)start;
}
