/* Which private pool a request belongs to. PyTorch passes a pool's filter as a
 * std::function<bool(cudaStream_t)> by value, which in the Itanium C++ ABI is a pointer to a
 * temporary; below is libstdc++'s layout of it. We copy it with the function's own manager, as its
 * copy constructor does, so building this library needs no C++ compiler. */
#include <stdlib.h>
#include <string.h>

#include "pools.h"

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

/* What an opening is for. UNKNOWN: nobody has said, and no request of it was captured. */
enum purpose { UNKNOWN, PROGRAM, GRAPH };

/* From begin to end. */
struct opening {
	uint64_t id0, id1;
	int device;
	struct std_function accepts; /* no manager: every stream */
	pthread_t thread;	     /* that began it */
	enum purpose purpose;
	bool captures;	   /* a stream may be captured: counted in its device */
	bool has_stream;   /* the one that is captured, if this is for a graph */
	void *stream;
};
static struct opening *open;
static int count, capacity;

/* False: the host has no memory. */
static bool make_room(void) {
	if (count < capacity) return true;
	struct opening *more = realloc(open, (size_t)(2 * count + 8) * sizeof *open);
	if (!more) return false;
	open = more;
	capacity = 2 * count + 8;
	return true;
}

/* Counts the pools being allocated to. While there are any, the device's lock is not biased: the
 * biased path of stalloc_malloc does not check for pools. */
static void change(struct stalloc_device *d, int by) {
	uint32_t now = atomic_fetch_add(&d->pools, (uint32_t)by) + (uint32_t)by;
	stalloc_lock_exchange(&d->lock, stalloc_nudge);
	stalloc_lock_set_biasing_off(&d->lock, now > 0);
	stalloc_unlock_and_drain(d);
}

static void set_captures(struct opening *o, bool captures) {
	if (o->captures == captures) return;
	o->captures = captures;
	atomic_fetch_add(&stalloc_devices[o->device].captures, captures ? 1u : (uint32_t)-1);
}

static void close_opening(int i) {
	struct opening *o = &open[i];
	struct stalloc_device *d = &stalloc_devices[o->device];
	if (o->accepts.manager)
		o->accepts.manager(&o->accepts.functor, &o->accepts.functor, DESTROY_FUNCTOR);
	set_captures(o, false);
	memmove(o, o + 1, (size_t)(--count - i) * sizeof *o);
	change(d, -1);
}

bool stalloc_end_failed_captures(void) {
	bool any = false;
	if (!*stalloc_alive) return false;
	HOLD_POOLS_LOCK;
	for (int i = count - 1; i >= 0; i--) {
		const struct opening o = open[i];
		if (o.purpose != GRAPH || !o.has_stream ||
		    !pthread_equal(o.thread, pthread_self()) ||
		    stalloc_capturing(o.device, o.stream) != 0)
			continue;
		struct pool *p = *stalloc_pool_find(o.device, o.id0, o.id1);
		close_opening(i);
		if (p) p->failed++;
		stalloc_pool_end_use(p);
		any = true;
	}
	return any;
}

void stalloc_begin_pool(int device, uint64_t id0, uint64_t id1, void *filter) {
	static _Atomic bool logged;
	const struct std_function *f = filter;
	if (!stalloc_ready() || !stalloc_is_device(device)) return;
	stalloc_end_failed_captures();
	/* Freeing released pools waits for the device, so do it now, before a capture begins. */
	HOLD_POOLS_LOCK;
	if (atomic_load(&stalloc_devices[device].captures) == 0)
		stalloc_free_pool(device, STALLOC_RELEASED);
	if (!stalloc_pool_use(device, id0, id1) || !make_room()) {
		stalloc_log_once(&logged, "the host has no memory for a private pool, which is "
					  "ignored: do not replay its graph");
		return;
	}
	struct opening *o = &open[count++];
	*o = (struct opening){
		.id0 = id0, .id1 = id1, .device = device, .thread = pthread_self()};
	if (f && f->manager) {
		o->accepts.manager = f->manager;
		o->accepts.invoker = f->invoker;
		f->manager(&o->accepts.functor, &f->functor, CLONE_FUNCTOR);
	}
	set_captures(o, true);
	change(&stalloc_devices[device], 1);
}

/* A stream that may be destroyed is not asked about later. The default stream is none that PyTorch
 * captures. */
static void set_purpose(struct opening *o, enum purpose purpose, void *stream) {
	struct stalloc_stream *s = stalloc_stream_find(&stalloc_devices[o->device],
						       (uint64_t)(uintptr_t)stream);
	o->purpose = purpose;
	o->stream = stream;
	o->has_stream = s && stream && atomic_load(&s->persistent);
}

void stalloc_pool_purpose(int device, uint64_t id0, uint64_t id1, void *stream, int graph) {
	if (!*stalloc_alive || !stalloc_is_device(device)) return;
	HOLD_POOLS_LOCK;
	for (int i = count - 1; i >= 0; i--) {
		struct opening *o = &open[i];
		if (o->device != device || o->id0 != id0 || o->id1 != id1) continue;
		set_purpose(o, graph ? GRAPH : PROGRAM, stream);
		set_captures(o, graph);
		return;
	}
}

void stalloc_end_pool(int device, uint64_t id0, uint64_t id1) {
	if (!*stalloc_alive) return; /* a forked child may have inherited a locked mutex */
	HOLD_POOLS_LOCK;
	for (int i = count - 1; i >= 0; i--) {
		if (open[i].device != device || open[i].id0 != id0 || open[i].id1 != id1) continue;
		close_opening(i);
		return;
	}
	/* Its use was ended, and its owner does so after all. */
	struct pool *p = *stalloc_pool_find(device, id0, id1);
	if (p && p->failed) p->failed--, p->uses++;
}

/* Whether a request of an opening is captured. Only some requests of a program's may be. */
static bool look(struct opening *o, void *stream) {
	int capturing = stalloc_capturing(o->device, stream);
	if (capturing < 0) return false;
	if (o->purpose == UNKNOWN && capturing) set_purpose(o, GRAPH, stream);
	if (o->purpose == PROGRAM) set_captures(o, capturing);
	return capturing;
}

/* An opening without ids is another allocator's. */
static bool serves(const struct opening *o, int device, void *stream) {
	const struct std_function *f = &o->accepts;
	if (o->device != device || (!o->id0 && !o->id1)) return false;
	return !f->manager || f->invoker(&f->functor, &stream);
}

/* The newest pool whose filter accepts the stream, or else the thread's region. */
void stalloc_pool_enter(struct stalloc_flight *f, struct stalloc_device *device, void *stream) {
	bool captured = false;
	uint64_t id0 = 0, id1 = 0;
	*f = (struct stalloc_flight){.pool = stalloc_region()};
	if (STALLOC_LIKELY(STALLOC_RELAXED(device->pools) == 0)) return;
	{
		HOLD_POOLS_LOCK;
		int i = count - 1;
		while (i >= 0 && !serves(&open[i], device->ordinal, stream)) i--;
		if (i < 0) return;
		struct opening *o = &open[i];
		id0 = o->id0, id1 = o->id1;
		f->pool = stalloc_pool_key(id0, id1);
		if ((f->of = *stalloc_pool_find(o->device, id0, id1))) f->of->flights++;
		bool known = f->of && f->of->captured;
		captured = look(o, stream) && !known;
		f->graph = captured || known;
	}
	if (captured) stalloc_capture_pool(device->ordinal, id0, id1);
}
