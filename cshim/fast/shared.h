/* What the C half and the C of the Go engine both see: devices, streams, cursors, events.
 *
 * All of a device that both sides touch is under the device's one lock: the index of its
 * range, the cursors, the log of events, the counters. Go's pool actor has the lock while
 * it is at work, driver calls included: a request waits for it, as it would in Go, and a
 * free is announced. Nothing here is public: see stalloc.h. */
#ifndef STALLOC_SHARED_H
#define STALLOC_SHARED_H

#include "index.h"
#include "lock.h"
#include "../stalloc.h"

#define STALLOC_MAX_DEVICES 64
/* Between two boundaries: 16 MiB, touched as far as they are used. */
#define STALLOC_MOST_EVENTS (1u << 20)

#define STALLOC_GRAIN_BITS 9
#define STALLOC_GRAIN (1u << STALLOC_GRAIN_BITS)

/* Stands for all private pools that were released: engine.Released. */
#define STALLOC_RELEASED (UINT64_MAX - 1)

/* Where one arena of a stream is in its schedule: schedule.Cursor. */
struct stalloc_cursor {
	const uint64_t *entries; /* schedule.Entry: size << PLACE_BITS | place */
	uint32_t n, at; /* the next entry */
	bool silent;
	uint64_t hits, misses;
};

/* The cursors of a stream: schedule.Large, Small. */
enum { STALLOC_LARGE, STALLOC_SMALL, STALLOC_CURSORS };

/* What was freed while another thread had the lock. */
struct stalloc_announced {
	struct stalloc_announced *next;
	uint64_t addr; /* of a block to free; 0: it is done */
};

/* schedule.Event. info is units << 24 | ordinal of the stream << 8 | kind. */
struct stalloc_event {
	uint64_t addr;
	uint64_t info;
};
enum { STALLOC_EV_HIT = 1, STALLOC_EV_MISS = 2, STALLOC_EV_FREE = 3, STALLOC_EV_LATE = 4 };

/* The events since the last boundary. What comes when all room is taken is lost, and
 * counted. */
struct stalloc_log {
	struct stalloc_event *next, *end; /* equal: nothing more is kept */
	struct stalloc_event *events;	  /* where it ends, too: there is to be no log */
	uint64_t lost, lost_ever; /* since the last boundary, and ever */
};

#define STALLOC_CHAINS 1024

struct stalloc_device;

/* It stays for good: threads remember it. */
struct stalloc_stream {
	uint64_t id; /* the CUstream */
	struct stalloc_device *device;
	struct stalloc_stream *next, *chain; /* of the device's; of those with the same hash */
	uint32_t heap; /* its number in the index, and in events, when it was looked up last */
	_Atomic bool lasting; /* it is never gone */
	struct stalloc_cursor cursors[STALLOC_CURSORS];
};

/* Of live blocks. */
struct stalloc_counts {
	struct stalloc_meters now;
	int64_t peak[STALLOC_METERS]; /* of all, without what is beside */
	int64_t peak_active;	      /* with those that wait for other streams */
	_Atomic bool stale;	      /* the meters' peaks wait for stalloc_set_beside */
};

/* What the engine leaves to the quick cases: actors.Terms. */
struct stalloc_terms {
	uint64_t left; /* so many requests and frees */
	uint64_t most; /* units of a request that no cursor expects */
};

struct stalloc_device {
	struct stalloc_lock lock;
	_Atomic(struct stalloc_announced *) announced; /* a stack, without the lock */
	int32_t ordinal;
	_Atomic uint32_t pools; /* private pools being allocated to; while there are, the lock is shut */
	uint64_t base, window; /* the addresses that blocks lie at: set once, before there is one */
	uint64_t small_limit; /* units of a request that has an arena of its own */
	struct stalloc_terms may;
	struct stalloc_log log;
	struct stalloc_index index;
	/* Announcements that are done, and those of blocks that only Go can free. Whoever
	 * leaves the lock next in C does that. */
	_Atomic(struct stalloc_announced *) undone;
	_Atomic(struct stalloc_stream *) streams; /* that were ever seen, the newest first */
	struct stalloc_counts counts;
	_Atomic uint64_t ooms;
	_Atomic(struct stalloc_stream *) chains[STALLOC_CHAINS]; /* the streams by a hash of the id */
	struct stalloc_owner owners[STALLOC_OWNERS];
} __attribute__((aligned(64)));

/* The stream of an id, NULL if it was not seen yet. Without the lock. */
static inline uint32_t stalloc_chain(uint64_t id) { return (uint32_t)(id * 0x9E3779B97F4A7C15u >> 54); }
static inline struct stalloc_stream *stalloc_stream_find(struct stalloc_device *d, uint64_t id) {
	struct stalloc_stream *s = atomic_load_explicit(&d->chains[stalloc_chain(id)], memory_order_acquire);
	while (s && s->id != id) s = s->chain;
	return s;
}

/* The lock is held in C only for bounded work that calls nothing outside: for less than so
 * many looks, where Go does not have it. */
#define STALLOC_QUICK_LOOKS 16
static inline bool stalloc_try_lock(struct stalloc_device *d) { return stalloc_lock_look(&d->lock, STALLOC_QUICK_LOOKS); }

/* Not from Go, see lock.h. */
void stalloc_nudge(void);
static inline void stalloc_lock(struct stalloc_device *d) { stalloc_lock_wait(&d->lock, stalloc_nudge); }
static inline void stalloc_unlock(struct stalloc_device *d) { stalloc_lock_release(&d->lock); }

#define STALLOC_RELAXED(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STALLOC_PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

/* Units of a request, at least one. */
static inline uint64_t stalloc_units_of(uint64_t asked) { return asked ? (asked + STALLOC_GRAIN - 1) / STALLOC_GRAIN : 1; }
static inline uint64_t stalloc_round(uint64_t asked) { return stalloc_units_of(asked) * STALLOC_GRAIN; }

/* The engine, as libstalloc sees it: the functions it exports, by name. */
struct stalloc_host {
	uint64_t size;	  /* of this struct */
	uint64_t device;  /* and of struct stalloc_device */
	const char *name;   /* what lines of the log begin with */
	const char *conf;   /* STALLOC_CONF, checked */
	const void *driver; /* struct stalloc_driver, opened; NULL: no driver */
	struct stalloc_device *devices;
};

/* What the engine answers to a free. */
struct stalloc_freed {
	uint64_t asked;
	int32_t device;
};

#endif
