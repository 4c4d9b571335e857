/* Which private pool a request belongs to. PyTorch passes the filter as a
 * std::function<bool(cudaStream_t)> by value, which in the Itanium C++ ABI is a pointer to a
 * temporary; below is libstdc++'s layout of it. We copy it with the function's own manager, as its
 * copy constructor does, so building this library needs no C++ compiler. */
#include <pthread.h>
#include <string.h>

#include "deferred.h"

union functor {
	void *object;
	unsigned char bytes[16];
};

struct std_function {
	union functor functor;
	bool (*manager)(union functor *to, const union functor *from, int operation);
	bool (*invoker)(const union functor *functor, void **stream);
};
enum { CLONE_FUNCTOR = 2, DESTROY_FUNCTOR = 3 };

struct pool {
	uint64_t id0, id1;
	int device;
	struct std_function accepts; /* no manager: every stream */
};
enum { MOST = 64 };
static struct pool active[MOST];
static int count;
static struct stalloc_flight *flights; /* requests of private pools in flight */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The engine's number of a pool. 0 is the default pool, and numbers from 2^63 on are regions. Ids
 * larger than PyTorch's are hashed into a range that no other pools use. */
static uint64_t key(uint64_t id0, uint64_t id1) {
	if (id0 < 1u << 30 && id1 <= UINT32_MAX) return id0 << 32 | id1;
	uint64_t x = id0 * 0x9E3779B97F4A7C15u;
	x = (x ^ x >> 32 ^ id1) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 29) * 0x94D049BB133111EBu;
	return (x ^ x >> 32) >> 2 | (uint64_t)1 << 62;
}

/* Counts the pools being allocated to. While there are any, the device's lock is not biased: the
 * biased path of stalloc_malloc does not check for pools. */
static void change(struct stalloc_device *d, int by) {
	uint32_t now = atomic_fetch_add(&d->pools, (uint32_t)by) + (uint32_t)by;
	stalloc_lock_exchange(&d->lock, stalloc_nudge);
	stalloc_lock_set_biasing_off(&d->lock, now > 0);
	stalloc_unlock_and_drain(d);
}

static void release(int device, uint64_t pool) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!e) return;
	e->trim(device, pool);
	stalloc_drain_now(&stalloc_devices[device]);
}

void stalloc_begin_pool(int device, uint64_t id0, uint64_t id1, void *filter) {
	static _Atomic bool full;
	const struct std_function *f = filter;
	if (!stalloc_ready() || device < 0 || device >= STALLOC_MAX_DEVICES) return;
	/* Freeing released pools waits for the device, so do it now, before a capture begins. */
	if (atomic_load(&stalloc_devices[device].pools) == 0) release(device, STALLOC_RELEASED);
	pthread_mutex_lock(&lock);
	if (count < MOST) {
		struct pool *p = &active[count++];
		*p = (struct pool){.id0 = id0, .id1 = id1, .device = device};
		if (f && f->manager) {
			p->accepts.manager = f->manager;
			p->accepts.invoker = f->invoker;
			f->manager(&p->accepts.functor, &f->functor, CLONE_FUNCTOR);
		}
		change(&stalloc_devices[device], 1);
	} else {
		stalloc_log_once(&full,
				 "more than %d private pools are being allocated to at once; the "
				 "newest is ignored",
				 MOST);
	}
	pthread_mutex_unlock(&lock);
}

void stalloc_end_pool(int device, uint64_t id0, uint64_t id1) {
	if (!*stalloc_alive) return; /* a forked child may have inherited a locked mutex */
	pthread_mutex_lock(&lock);
	for (int i = count - 1; i >= 0; i--) {
		struct pool *p = &active[i];
		if (p->device != device || p->id0 != id0 || p->id1 != id1) continue;
		if (p->accepts.manager)
			p->accepts.manager(&p->accepts.functor, &p->accepts.functor,
					   DESTROY_FUNCTOR);
		memmove(p, p + 1, (size_t)(--count - i) * sizeof *p);
		change(&stalloc_devices[device], -1);
		break;
	}
	pthread_mutex_unlock(&lock);
}

void stalloc_release_pool(int device, uint64_t id0, uint64_t id1) {
	uint64_t pool = key(id0, id1);
	if (!*stalloc_alive || device < 0 || device >= STALLOC_MAX_DEVICES) return;
	pthread_mutex_lock(&lock);
	for (struct stalloc_flight *f = flights; f; f = f->next)
		if (f->device->ordinal == device && f->pool == pool) f->released = true;
	pthread_mutex_unlock(&lock);
	release(device, pool);
}

/* The newest pool whose filter accepts the stream, or else the thread's region. */
void stalloc_pool_enter(struct stalloc_flight *f, struct stalloc_device *device, void *stream) {
	*f = (struct stalloc_flight){.device = device};
	if (STALLOC_LIKELY(STALLOC_RELAXED(device->pools) == 0 && stalloc_region() == 0)) return;
	pthread_mutex_lock(&lock);
	for (int i = count - 1; i >= 0 && !f->pool; i--) {
		struct pool *p = &active[i];
		if (p->device == device->ordinal &&
		    (!p->accepts.manager || p->accepts.invoker(&p->accepts.functor, &stream)))
			f->pool = key(p->id0, p->id1);
	}
	if (!f->pool) f->pool = stalloc_region();
	if (f->pool) {
		f->next = flights;
		flights = f;
	}
	pthread_mutex_unlock(&lock);
}

/* A request that raced with stalloc_release_pool has revived the pool: release it again. */
void stalloc_pool_leave(struct stalloc_flight *f) {
	if (STALLOC_LIKELY(f->pool == 0)) return;
	pthread_mutex_lock(&lock);
	struct stalloc_flight **at = &flights;
	while (*at != f) at = &(*at)->next;
	*at = f->next;
	bool again = f->released;
	for (int i = 0; i < count; i++)
		again = again && !(active[i].device == f->device->ordinal &&
				   key(active[i].id0, active[i].id1) == f->pool);
	pthread_mutex_unlock(&lock);
	if (again) release(f->device->ordinal, f->pool);
}
