/* What the C half and the Go engine both see: devices, streams, tapes, events.
 *
 * All of a device that both sides touch is under the device's one lock: the lent arrays of
 * the range, the tapes, the log of events, the counters. Go's pool actor has the lock while
 * it is at work, driver calls included: a request waits for it, as it would in Go, and a
 * free is announced. cshim/engine checks at start that Go's
 * structs have these fields at these offsets. Nothing here is public: see stalloc.h. */
#ifndef STALLOC_SHARED_H
#define STALLOC_SHARED_H

#include "lent.h"
#include "lock.h"

#define STALLOC_MAX_DEVICES 64
/* Between two boundaries: 16 MiB, touched as far as they are used. */
#define STALLOC_MOST_EVENTS (1u << 20)

/* wish.State */
struct stalloc_tape_state {
	uint32_t cursor;
	uint32_t strays;
	uint64_t last[4];
	uint64_t matched, missed;
	uint64_t hits, misses;
};

#define STALLOC_PLACE_BITS 33

struct stalloc_slot {
	uint64_t entry;	   /* wish.Entry */
	uint64_t version;  /* of the space when the bytes were last known to be free */
	uint32_t frontier; /* the first of its frontier; the next entry's is behind the last */
	uint32_t place;
};

/* Where a block of a tape may begin. */
struct stalloc_place {
	/* at << NUMBER_BITS | flags | so many of its bytes were not asked for, fewer than a
	 * grain. One word, because parts of what was just written are slow to read. */
	uint64_t word;
	uint64_t info; /* of its hit */
};
enum {
	PLACE_LIVE = STALLOC_GRAIN,	   /* a block is there */
	PLACE_INDEXED = 2 * STALLOC_GRAIN, /* it is the range's, which may have freed it since */
	PLACE_DIRTY = 4 * STALLOC_GRAIN,   /* is on the list */
};

/* What a tape plays (reel.h). */
struct stalloc_reel {
	uint32_t n, dirty_n;
	struct stalloc_slot *slots; /* of the entries, and an empty one; of a forecast, there is nothing else */
	uint32_t *frontier;	    /* of all entries: places */
	struct stalloc_place *places; /* by a hash of at: open addressing, linear probing, at most half full */
	uint32_t shift;		      /* of the hash */
	uint32_t *dirty;	      /* places whose blocks the range may not know */
};

/* The wishes of one space of a stream. While it is armed, Go has not had the lock since its
 * last hit: all that may serve another is in the cursor, the slots and the places. */
struct stalloc_tape {
	struct stalloc_tape_state state; /* as of when it was armed */
	uint64_t armed;			 /* the space's version; 0: it is not */
	struct stalloc_slot *slot;	 /* while it is, that of the next entry */
	struct stalloc_reel *reel;	 /* NULL: there are none */
	uint64_t info;			 /* of its hits, without units */
	uint32_t space;			 /* of the engine */
	/* As C left them. What is different was done by Go. */
	uint32_t cursor;
	uint64_t matched, hits, version;
} __attribute__((aligned(32))); /* 144 bytes apart, a hit was measured 2 % slower */

/* The tapes of a stream: wish.Large, Small, Foreseen. The last is asked by requests that the
 * range's terms leave to Go, and never armed: its list is served once. */
enum { STALLOC_LARGE, STALLOC_SMALL, STALLOC_FORESEEN, STALLOC_TAPES };

/* What was freed while another thread had the lock. */
struct stalloc_announced {
	struct stalloc_announced *next;
	uint64_t addr; /* of a block to free; 0: it is done */
};

/* wish.Event. info is units << 24 | ordinal of the stream << 8 | kind. */
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
	struct stalloc_event *read; /* up to here the history is known (brief.h): brief.History */
	uint32_t word;
	uint64_t last;
};

#define STALLOC_BRIEF_SMALL 128 /* brief.Small */
#define STALLOC_BRIEF_KEY_BITS 14

struct stalloc_device;

struct stalloc_stream {
	uint64_t id; /* the CUstream */
	struct stalloc_device *device;
	struct stalloc_stream *next;
	uint32_t heap; /* its number in the engine, and in events; 0: not looked up yet */
	struct stalloc_tape tapes[STALLOC_TAPES];
};

/* Of live blocks, but for the last three. */
struct stalloc_counts {
	int64_t allocated, requested, blocks; /* rounded bytes, bytes as asked for, number */
	int64_t peak_allocated, peak_requested, peak_blocks;
	int64_t peak_active; /* with those that wait for other streams */
	uint64_t requests, allocated_total;
};

/* By how many blocks, units and bytes as asked for quick hits and frees may still let the load
 * grow until the counts of the device and of the range are to be looked at (stalloc_fold), so
 * that no peak is passed. */
struct stalloc_allowance {
	struct { /* not side by side: a compiler that loads two counters at once has to wait until both are in the cache */
		int64_t left, granted;
	} blocks, units, asked;
};

struct stalloc_device {
	struct stalloc_lock lock;
	_Atomic(struct stalloc_announced *) announced; /* a stack, without the lock */
	int32_t ordinal;
	_Atomic uint32_t pools; /* private pools being allocated to; while there are, the lock is shut */
	struct stalloc_allowance allowance;
	struct stalloc_event *first, *last; /* of quick hits and frees: from one up to the other; NULL: not before stalloc_grant */
	struct stalloc_log log;
	struct stalloc_range range;
	/* Announcements that are done, and those of blocks that only Go can free. Whoever
	 * leaves the lock next in C does that. */
	_Atomic(struct stalloc_announced *) undone;
	_Atomic(struct stalloc_stream *) streams;
	struct stalloc_counts counts;
	uint64_t brief[(1 << STALLOC_BRIEF_KEY_BITS) / 64]; /* brief.Table */
	_Atomic uint64_t ooms;
	struct stalloc_owner owners[STALLOC_OWNERS];
} __attribute__((aligned(64)));

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
