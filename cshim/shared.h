/* What the C half and the Go engine both see: streams, tapes, events.
 *
 * The arrays of a tape are allocated and filled by the engine (stream.Lay),
 * published under the stream's lock, and read and changed by both sides from
 * then on, always under that lock. cshim/engine checks at start that Go's
 * structs have these fields at these offsets. Nothing here is public: see stalloc.h.
 */
#ifndef STALLOC_SHARED_H
#define STALLOC_SHARED_H

#include "lock.h"

#define STALLOC_GRAIN 512u
#define STALLOC_LOAD_COUNT 28
#define STALLOC_NONE UINT32_MAX
#define STALLOC_MAX_DEVICES 64
#define STALLOC_ARENAS 256 /* of one part of the table */
#define STALLOC_MAX_OWED 64
#define STALLOC_LOG 64
/* Of a stream between two boundaries, actors.MostEvents: 16 MiB, touched as far as
 * they are used. Behind the first so many it gives memory back that it has no more
 * use for. */
#define STALLOC_MOST_EVENTS (1u << 20)
#define STALLOC_KEPT_EVENTS (1u << 16)
/* Flags in stalloc_entry.offset. */
#define STALLOC_PERSISTS 1u
#define STALLOC_POOL 2u

enum { STALLOC_OWED = 1, STALLOC_PINNED = 2, STALLOC_LIVE_PERSISTS = 4, STALLOC_FREED = 8 };

/* stream.Entry */
struct stalloc_entry {
	uint64_t size;
	uint64_t offset;
	uint32_t slot;
	uint32_t place;
};

/* stream.Live */
struct stalloc_live {
	uint32_t slot; /* index + 1, 0: free */
	uint32_t flags;
	uint64_t asked;
};

/* stream.Freeing */
struct stalloc_freeing {
	uint32_t slot;
	uint32_t cursor;
};

/* stream.State */
struct stalloc_state {
	uint64_t base;
	uint32_t cursor;
	uint32_t owed;
	uint32_t partial;
	uint32_t off;
	uint32_t live;
	uint32_t persist;
	uint64_t hits;
	uint64_t misses;
	uint64_t resyncs;
	uint64_t late;
	uint32_t owed_at[STALLOC_MAX_OWED];
	uint32_t freed;
	uint32_t unused;
	struct stalloc_freeing log[STALLOC_LOG]; /* the last frees: the n-th is at n % STALLOC_LOG */
};

struct stalloc_stream;

/* An arena that frees find by address. An entry only says whose lock to take: it may be
 * changing while it is read, and under the lock the stream's own tapes decide. */
struct stalloc_arena {
	_Atomic uint64_t size, base; /* size 0: nothing */
	_Atomic(struct stalloc_stream *) stream; /* NULL: not in use */
};

/* The arenas of the process, in parts that are never freed. */
struct stalloc_arenas {
	_Atomic uint32_t count; /* entries behind it were never in use */
	struct stalloc_arena at[STALLOC_ARENAS];
	_Atomic(struct stalloc_arenas *) more;
};

/* A tape and its arrays. They are read and changed under the stream's lock only, and
 * freed under it as soon as the tape is replaced or dropped. */
struct stalloc_tape {
	struct stalloc_state state;
	uint64_t arena_size;
	struct stalloc_entry *entries;
	struct stalloc_live *live;
	uint64_t *index;
	uint64_t index_mask;
	uint64_t *offsets; /* by place */
	struct stalloc_stream *stream;
	struct stalloc_tape *next;   /* of the stream's */
	struct stalloc_arena *arena; /* its entry, NULL: none */
	uint32_t pinned;	     /* live slots that other streams use */
};

/* A free that came while another thread held the lock. */
struct stalloc_announced {
	struct stalloc_announced *next;
	uint64_t addr; /* 0: it is done */
};

/* One event for the planner. info is the rounded size << 8 | kind. */
struct stalloc_event {
	uint64_t addr;
	uint64_t info;
};
enum { STALLOC_EV_HIT = 1, STALLOC_EV_MISS = 2, STALLOC_EV_FREE = 3, STALLOC_EV_PIN = 4 };

/* The events since the last boundary, under the stream's lock. What comes when all
 * room is taken is lost, and counted. */
struct stalloc_observed {
	struct stalloc_event *events;
	uint64_t count;
	uint64_t lost; /* ever */
	uint64_t touched; /* the most since memory was given back */
};

struct stalloc_device;

struct stalloc_stream {
	struct stalloc_lock lock;
	struct stalloc_tape *tape; /* that is served */
	_Atomic(struct stalloc_announced *) announced; /* a stack, without the lock */
	/* Those that somebody took off the stack and that are no free of a live slot (the
	 * pool has taken the block over, or it is a guest), or are done. Whoever leaves the
	 * lock next in C frees these blocks and the announcements. */
	_Atomic(struct stalloc_announced *) left;
	_Atomic uint32_t pinned;    /* of all tapes */
	struct stalloc_tape *tapes; /* all that hold or may hold a block */
	struct stalloc_device *device;
	uint32_t recording; /* 0: events are not pushed */
	uint64_t id; /* the CUstream */
	struct stalloc_stream *next;
	uint64_t allocations; /* blocks handed out */
	uint64_t frees;
	uint64_t allocated_total; /* rounded bytes handed out */
	uint64_t freed_total;
	_Atomic uint64_t busy; /* requests that found the lock taken */
	uint32_t known; /* the engine has served a request of this stream */
	uint32_t heap;	/* its number in the engine's pool; 0: not looked up yet */
	struct stalloc_observed observed;
};

struct stalloc_pool;

struct stalloc_device {
	_Atomic(struct stalloc_stream *) streams;
	_Atomic(struct stalloc_pool *) pool; /* NULL: the engine lends none */
	int32_t ordinal;
	/* 0 while the device has one stream: then that stream's lock orders every
	 * update of the counters below and none needs an atomic addition. */
	_Atomic uint32_t many;
	_Atomic uint32_t pools; /* private pools being allocated to */
	/* Live blocks: their number and, above STALLOC_LOAD_COUNT bits, their
	 * rounded sizes in grains, together so that one addition counts a block. */
	_Atomic int64_t load;
	_Atomic int64_t slack; /* rounded less asked sizes of live blocks */
	_Atomic int64_t peak_allocated, peak_requested, peak_live, peak_active;
	_Atomic int64_t pending; /* freed, waiting for other streams */
	_Atomic uint64_t ooms;
};

/* The lock is held only for bounded work that calls nothing outside. */
static inline bool stalloc_try_lock(struct stalloc_stream *s) { return stalloc_lock_try(&s->lock, 0); }

/* Not from Go, see lock.h. */
static inline void stalloc_lock(struct stalloc_stream *s) {
	if (!stalloc_lock_try(&s->lock, STALLOC_PATIENCE)) stalloc_lock_wait(&s->lock);
}

static inline void stalloc_unlock(struct stalloc_stream *s) { stalloc_lock_release(&s->lock); }

#define STALLOC_RELAXED(x) atomic_load_explicit(&(x), memory_order_relaxed)
#define STALLOC_PUT(x, v) atomic_store_explicit(&(x), (v), memory_order_relaxed)

/* The engine, as libstalloc sees it: the functions it exports, by name. */
struct stalloc_host {
	uint64_t size;	  /* of this struct */
	const char *conf;   /* STALLOC_CONF, checked */
	uint64_t window, fraglimit; /* of it, amounts of memory; 0: not set */
	uint64_t limit;
	double limit_share; /* of the device's memory, where limit is such */
	const void *driver; /* struct stalloc_driver, opened; NULL: no driver */
	struct stalloc_device *devices;
	struct stalloc_arenas *arenas;
};

/* What the engine answers to a free. */
struct stalloc_freed {
	uint64_t rounded, asked;
	uint64_t stream;
	int32_t device;
};

struct stalloc_engine_stats {
	uint64_t reserved, peak_reserved, arena_bytes, pool_bytes;
	uint64_t hits, misses, resyncs, steps, plan_generation;
	uint64_t driver_calls, driver_ns, retries;
	uint64_t dropped_events;
};

/* As the pool of a request: take it from the pool without a look at the tape. */
#define STALLOC_POOL_ONLY UINT64_MAX

#endif
