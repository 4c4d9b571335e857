/* Allocation and free. The fast path of each is a few loads and stores under the device's lock; a
 * free never waits for the lock. What the fast path cannot serve goes to the Go engine. */
#include <string.h>

#include "pools.h"

static _Atomic(stalloc_thrower) thrower;
static _Atomic bool logged_child, logged_conf;

static __thread struct stalloc_bias no_bias; /* no lock is biased towards it */

void stalloc_set_thrower(stalloc_thrower t) { atomic_store(&thrower, t); }

/* Looks a stream up and remembers it for the thread's next request, with the thread's bias. */
static struct stalloc_stream *stream_of(int device, void *id) {
	struct stalloc_stream *s = stalloc_recent.stream;
	if ((stalloc_recent.device != device || stalloc_recent.id != id) &&
	    !(s = stalloc_stream_of(device, id)))
		return NULL;
	stalloc_recent.device = device;
	stalloc_recent.id = id;
	stalloc_recent.stream = s;
	stalloc_recent.of = s->device;
	if (!(stalloc_recent.bias = stalloc_lock_bias(&s->device->lock)))
		stalloc_recent.bias = &no_bias;
	if (STALLOC_UNLIKELY(stalloc_region() != 0)) stalloc_invalidate_recent();
	return s;
}

/* For the thread that released the lock, if it has frees to perform. Those for Go can wait. */
static __attribute__((noinline)) void *drain_and_return(struct stalloc_device *d, void *result) {
	if (stalloc_try_lock(d)) stalloc_unlock_and_drain(d);
	return result;
}

/* Fails a request. The text begins with the words that training code looks for when memory runs
 * out. */
static void *refuse(int result, int device, size_t size, const char *why) {
	stalloc_thrower f = atomic_load(&thrower);
	if (result == STALLOC_ERR_MEMORY) {
		atomic_fetch_add(&stalloc_devices[device].ooms, 1);
		stalloc_fail(result,
			     "CUDA out of memory. Tried to allocate %.2f MiB (%zu bytes) on "
			     "device %d: %s",
			     (double)size / (1 << 20), size, device, why);
	} else {
		stalloc_fail(result, "stalloc could not allocate %zu bytes on device %d: %s", size,
			     device, why);
	}
	if (f) f("stalloc_malloc", "stalloc", 0, stalloc_last_error());
	return NULL;
}

/* Allocates through the engine, or by a plain driver allocation. A request of a private pool leaves
 * it here, before the thrower, which may not return. */
static __attribute__((noinline)) void *alloc_in_engine(struct stalloc_stream *s, size_t size,
						       struct stalloc_flight *f) {
	char err[4096]; /* not zeroed, which would cost more than much of what follows */
	uint64_t addr = 0, pool = f ? f->pool : 0;
	void *plain = NULL;
	strcpy(err, "no reason given");
	int result = STALLOC_ERR_ENGINE, device = s->device->ordinal;
	const struct stalloc_engine *e = stalloc_engine(device);
	if (e) result = e->alloc(s, pool, size, &addr, err, sizeof err);
	if (result == STALLOC_ERR_MEMORY && stalloc_drain_now(s->device)) /* frees were waiting */
		result = e->alloc(s, pool, size, &addr, err, sizeof err);
	if (result == STALLOC_ERR_MEMORY && stalloc_end_failed_captures())
		result = e->alloc(s, pool, size, &addr, err, sizeof err);
	if (e && result == STALLOC_ERR_ENGINE) stalloc_engine_give_up(device, err);
	if (result == STALLOC_ERR_ENGINE) {
		stalloc_log_fallback_once(device);
		result = stalloc_plain_alloc(device, size, f && f->graph ? pool : 0, &plain, err,
					     sizeof err);
		addr = (uint64_t)(uintptr_t)plain;
	}
	if (f) stalloc_pool_leave(f);
	if (result != STALLOC_OK) return refuse(result, device, size, err);
	stalloc_count(s->device, true, size);
	return (void *)(uintptr_t)addr;
}

int stalloc_malloc_at(void *ptr, size_t size, int device, void *stream, const uint64_t *pool) {
	char err[4096] = "no reason given";
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	const struct stalloc_engine *e = stalloc_ready() ? stalloc_engine_if_open() : NULL;
	struct stalloc_stream *s = e ? stalloc_stream_of(device, stream) : NULL;
	if (!s || !addr || !size)
		return stalloc_fail(STALLOC_ERR_ARGUMENT, "no block can lie at %p", ptr);
	struct stalloc_flight f = {0};
	stalloc_drain_now(s->device); /* frees may be waiting */
	if (!pool) stalloc_pool_enter(&f, s->device, stream);
	const uint64_t key = pool ? stalloc_pool_key(pool[0], pool[1]) : f.pool;
	int result = e->alloc(s, key, size, &addr, err, sizeof err);
	/* A free of another thread takes long on a busy host. */
	if (result == STALLOC_ERR_MEMORY && stalloc_drain_now(s->device))
		result = e->alloc(s, key, size, &addr, err, sizeof err);
	stalloc_pool_leave(&f);
	if (result != STALLOC_OK)
		return stalloc_fail(result, "no block of %zu bytes can lie at %p: %s", size, ptr,
				    err);
	stalloc_count(s->device, true, size);
	return STALLOC_OK;
}

#define MOST ((uint64_t)INT64_MAX / 2) /* bytes */

/* Takes the lock and allocates. */
static __attribute__((noinline)) void *alloc_locked(struct stalloc_device *d,
						    struct stalloc_stream *s, size_t size) {
	stalloc_lock(d);
	stalloc_drain(d);
	uint64_t addr = stalloc_fast_alloc(d, s, size);
	stalloc_unlock_and_drain(d);
	return addr ? (void *)(uintptr_t)addr : alloc_in_engine(s, size, NULL);
}

/* Allocates with all checks that stalloc_malloc skips: the thread used another stream before, has
 * not the bias or is in a region, or the size is out of range. */
static __attribute__((noinline)) void *alloc_checked(size_t size, int device, void *stream) {
	if (size == 0) return NULL;
	if (!*stalloc_alive && !stalloc_ready()) {
		stalloc_log_once(
			&logged_child,
			"allocation in a forked child refused: CUDA does not survive a fork; "
			"start the child with the spawn method");
		stalloc_fail(STALLOC_ERR_DRIVER,
			     "stalloc cannot be used in a forked child: start it with the spawn "
			     "method");
		return NULL;
	}
	const char *problem = stalloc_conf_problem();
	if (STALLOC_UNLIKELY(problem != NULL)) { /* a limit that was meant must not be ignored */
		stalloc_log_once(&logged_conf, "%s. Nothing is allocated until that is corrected",
				 problem);
		return refuse(STALLOC_ERR_CONF, device, size, problem);
	}
	struct stalloc_stream *s = stream_of(device, stream);
	if (!s) return refuse(STALLOC_ERR_ARGUMENT, device, size, "there is no such device");
	if (size - 1 >= MOST)
		return refuse(STALLOC_ERR_MEMORY, device, size, "no block can be that large");
	struct stalloc_flight f;
	stalloc_pool_enter(&f, s->device, stream);
	return f.pool ? alloc_in_engine(s, size, &f) : alloc_locked(s->device, s, size);
}

/* The common case is inline here: the thread uses its last stream again and the lock is biased
 * towards it. In a forked child, and while private pools are being allocated to, no lock is
 * biased, so those cases go to alloc_checked. */
void *stalloc_malloc(size_t size, int device, void *stream) {
	struct stalloc_stream *s = stalloc_recent.stream;
	struct stalloc_device *d = stalloc_recent.of;
	struct stalloc_bias *o = stalloc_recent.bias;
	if (STALLOC_UNLIKELY(stalloc_recent.device != device || stalloc_recent.id != stream ||
			     size - 1 >= MOST || !stalloc_lock_enter_biased(&d->lock, o)))
		return alloc_checked(size, device, stream);
	uint64_t addr = stalloc_fast_alloc(d, s, size);
	stalloc_lock_leave_biased(o);
	if (STALLOC_UNLIKELY(addr == 0)) return alloc_locked(d, s, size);
	if (STALLOC_UNLIKELY(STALLOC_RELAXED(d->deferred_frees) != NULL))
		return drain_and_return(d, (void *)(uintptr_t)addr);
	return (void *)(uintptr_t)addr;
}

/* Takes the lock and frees; if another thread has the lock, defers the free to it. */
__attribute__((noinline)) void stalloc_free_at(struct stalloc_device *d, uint64_t addr) {
	if (!stalloc_try_lock(d)) {
		if (stalloc_defer_free(d, addr)) {
			/* The holder may have released the lock before it could see the free. */
			if (stalloc_try_lock(d)) stalloc_unlock_and_drain(d);
			return;
		}
		stalloc_lock(d);
	}
	bool done = stalloc_fast_free(d, addr);
	stalloc_unlock_and_drain(d);
	if (STALLOC_UNLIKELY(!done)) stalloc_free_in_engine(addr, false);
}

static __attribute__((noinline)) void free_checked(uint64_t addr, int device, void *stream) {
	if (!addr || !*stalloc_alive) return;
	struct stalloc_stream *s = stream_of(device, stream);
	if (s)
		stalloc_free_at(s->device, addr);
	else
		stalloc_free_in_engine(addr, false); /* the engine finds the block's device */
}

void stalloc_free(void *ptr, size_t size, int device, void *stream) {
	struct stalloc_device *d = stalloc_recent.of;
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	struct stalloc_bias *o = stalloc_recent.bias;
	(void)size;
	if (STALLOC_UNLIKELY(stalloc_recent.device != device || stalloc_recent.id != stream ||
			     !stalloc_lock_enter_biased(&d->lock, o))) {
		free_checked(addr, device, stream);
		return;
	}
	bool done = stalloc_fast_free(d, addr);
	stalloc_lock_leave_biased(o);
	if (STALLOC_UNLIKELY(!done && addr != 0)) stalloc_free_at(d, addr);
	if (STALLOC_UNLIKELY(STALLOC_RELAXED(d->deferred_frees) != NULL))
		drain_and_return(d, NULL);
}

void stalloc_lasting_stream(int device, void *stream) {
	/* stalloc_ready: a forked child may have inherited the streams' lock in a locked state. */
	struct stalloc_stream *s = stalloc_ready() ? stalloc_stream_of(device, stream) : NULL;
	if (s) atomic_store(&s->persistent, true);
}

void stalloc_record_stream(void *ptr, void *stream) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!ptr || !e) return;
	e->record_stream((uint64_t)(uintptr_t)ptr, (uint64_t)(uintptr_t)stream);
}

void *stalloc_base(void *ptr, size_t *size) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	uint64_t addr = (uint64_t)(uintptr_t)ptr, start = 0, bytes = 0;
	struct stalloc_block plain;
	if (!ptr || !*stalloc_alive) return NULL;
	if (e && e->base(addr, &start, &bytes) == STALLOC_OK) {
		if (size) *size = bytes;
		return (void *)(uintptr_t)start;
	}
	if (!stalloc_plain_find(addr, true, &plain)) return NULL;
	if (size) *size = stalloc_round(plain.asked);
	return plain.ptr;
}
