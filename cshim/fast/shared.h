/* What libstalloc and the Go engine's C code both see: devices, streams, cursors, events.
 *
 * Everything of a device that both use is guarded by the device's one lock: the index of its
 * address range, the cursors, the log of events, the counters. Go's pool actor holds the lock
 * while it works, driver calls included: a request waits for it, and a free is deferred.
 * Nothing here is public: see stalloc.h. */
#ifndef STALLOC_SHARED_H
#define STALLOC_SHARED_H

#include "index.h"
#include "lock.h"
#include "../stalloc_torch.h"

#define STALLOC_MAX_DEVICES 64
/* Between two boundaries: 16 MiB, of which only the used part is touched. */
#define STALLOC_MAX_EVENTS (1u << 20)

#define STALLOC_GRAIN_BITS 9
#define STALLOC_GRAIN (1u << STALLOC_GRAIN_BITS)

/* Stand for all private pools that were released, and that no graph uses: engine.Released,
 * engine.Regions. */
#define STALLOC_RELEASED (UINT64_MAX - 1)
#define STALLOC_REGIONS (UINT64_MAX - 2)

/* How far one arena of a stream is in its schedule: schedule.Cursor. */
struct stalloc_cursor {
	const uint64_t *entries; /* schedule.Entry: size << PLACE_BITS | place */
	uint32_t n, at;		 /* how many, and the next one */
	bool diverged; /* a request was not the expected one: no hits until the next boundary */
	uint64_t hits, misses;
};

/* The cursors of a stream: schedule.Large, Small. */
enum { STALLOC_LARGE, STALLOC_SMALL, STALLOC_CURSORS };

/* A free that found the lock taken. */
struct stalloc_deferred_free {
	struct stalloc_deferred_free *next;
	uint64_t addr; /* of the block; 0: C has freed it */
};

/* schedule.Event. info is units << 24 | number of the stream << 8 | kind. */
struct stalloc_event {
	uint64_t addr;
	uint64_t info;
};
enum { STALLOC_EV_HIT = 1, STALLOC_EV_MISS = 2, STALLOC_EV_FREE = 3, STALLOC_EV_LATE = 4 };

/* The events since the last boundary. Once the array is full, events are lost and counted. */
struct stalloc_log {
	struct stalloc_event *next, *end; /* equal: no event is kept */
	struct stalloc_event *events;	  /* equal to end: logging is off */
	uint64_t lost, lost_ever;	  /* since the last boundary, and ever */
};

#define STALLOC_CHAINS 1024

struct stalloc_device;

/* It is never freed, because threads remember it. */
struct stalloc_stream {
	uint64_t id; /* the CUstream */
	struct stalloc_device *device;
	struct stalloc_stream *next, *chain; /* next of the device; next with the same hash */
	uint32_t heap; /* its number in the index and in events, as of the last lookup */
	_Atomic bool persistent; /* it is never destroyed */
	struct stalloc_cursor cursors[STALLOC_CURSORS];
};

/* Of live blocks. */
struct stalloc_counts {
	struct stalloc_meters now;
	int64_t peak[STALLOC_METERS]; /* of all pools, without another allocator's memory */
	int64_t highest; /* allocated bytes since the last host.TakeLoad */
	int64_t peak_active; /* with freed blocks that other streams still use */
	_Atomic bool stale;  /* the meters' peaks wait for stalloc_set_other */
};

/* How much the fast path may do before it must enter Go: host.Budget. */
struct stalloc_budget {
	uint64_t ops;	    /* requests and frees */
	uint64_t max_units; /* of a request that no cursor expects */
};

struct stalloc_device {
	struct stalloc_lock lock;
	/* A stack that any thread pushes to without the lock; its holder empties it. */
	_Atomic(struct stalloc_deferred_free *) deferred_frees;
	int32_t ordinal;
	_Atomic uint32_t pools;    /* private pools being allocated to: while > 0, biasing is off */
	_Atomic uint32_t captures; /* of these, where a stream may be captured into a graph */
	uint64_t base, window;	/* the address range: set once, before there is a block */
	uint64_t small_limit;	/* units of a request that goes to the small arena */
	struct stalloc_budget budget;
	struct stalloc_log log;
	struct stalloc_index index;
	/* Deferred frees that C has performed or only Go can perform. The next thread that
	 * releases the lock in C takes them. */
	_Atomic(struct stalloc_deferred_free *) frees_for_go;
	_Atomic uint32_t senders; /* threads that pass some of them to Go */
	_Atomic(struct stalloc_stream *) streams; /* all that were ever seen, newest first */
	struct stalloc_counts counts;
	_Atomic uint64_t ooms;
	_Atomic(struct stalloc_stream *) chains[STALLOC_CHAINS]; /* streams by hash of the id */
	struct stalloc_bias bias_slots[STALLOC_BIAS_SLOTS];
} __attribute__((aligned(64)));

/* The stream with an id; NULL: it was not seen yet. Needs no lock. */
static inline uint32_t stalloc_chain(uint64_t id) {
	return (uint32_t)(id * 0x9E3779B97F4A7C15u >> 54);
}
static inline struct stalloc_stream *stalloc_stream_find(struct stalloc_device *d, uint64_t id) {
	struct stalloc_stream *s =
		atomic_load_explicit(&d->chains[stalloc_chain(id)], memory_order_acquire);
	while (s && s->id != id) s = s->chain;
	return s;
}

/* Tries to take the lock without sleeping. C holds the lock only for bounded work that calls
 * nothing outside, which takes less than so many spins; Go may hold it for longer. */
#define STALLOC_QUICK_SPINS 16
static inline bool stalloc_try_lock(struct stalloc_device *d) {
	return stalloc_lock_try(&d->lock, STALLOC_QUICK_SPINS);
}

/* Never call these from Go: see lock.h. */
void stalloc_nudge(void);
static inline void stalloc_lock(struct stalloc_device *d) {
	stalloc_lock_acquire(&d->lock, stalloc_nudge);
}
static inline void stalloc_unlock(struct stalloc_device *d) { stalloc_lock_release(&d->lock); }

#define STALLOC_RELAXED(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STALLOC_PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

/* The units of a request, at least one. */
static inline uint64_t stalloc_units_of(uint64_t asked) {
	return asked ? (asked + STALLOC_GRAIN - 1) / STALLOC_GRAIN : 1;
}
static inline uint64_t stalloc_round(uint64_t asked) {
	return stalloc_units_of(asked) * STALLOC_GRAIN;
}

/* What libstalloc gives the engine when it starts it. */
struct stalloc_host {
	uint64_t size;	    /* of this struct */
	uint64_t device;    /* and of struct stalloc_device */
	const char *name;   /* prefix of every log line */
	const char *conf;   /* STALLOC_CONF, checked */
	const void *driver; /* struct stalloc_driver, opened; NULL: no driver */
	struct stalloc_device *devices;
};

/* What the engine does with memory that sleeps, beside stalloc_pause's backups; and with a region,
 * beside ending its use, which is a sum of stalloc_end_awake's. */
enum { STALLOC_RESUME = -1, STALLOC_BEGIN_AWAKE = -1, STALLOC_PREFETCH = -2 };

/* What the engine answers to a free. */
struct stalloc_freed {
	uint64_t asked;
	int32_t device;
};

#endif
