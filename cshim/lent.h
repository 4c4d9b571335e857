/* The state of the Go engine as it lies in memory while it is lent (engine/lent.go):
 * the same structs, field by field; cshim/engine compares them at start. Units are 512
 * bytes, counted from base; pages are 2 MiB; all numbers of things begin at 1, and 0 is
 * none. */
#ifndef STALLOC_LENT_H
#define STALLOC_LENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define POOL_PAGE_SHIFT 12
#define POOL_PAGE_UNITS 4096u
#define POOL_PAGE_MASK 4095u
#define POOL_EDGE_SHIFT 5
#define POOL_EDGE_CLASSES (POOL_PAGE_UNITS >> POOL_EDGE_SHIFT)
#define POOL_START_BITS 33
#define POOL_CLASS_BITS 5
#define POOL_CLASSES (32 * (POOL_START_BITS - POOL_CLASS_BITS))
#define POOL_CLASS_WORDS ((POOL_CLASSES + 63) / 64)
#define POOL_LEVELS 4 /* of a set of pages: 64^4 are more than the window has */
enum { POOL_BY_ADDR, POOL_BY_SIZE };
enum { POOL_PREFIX, POOL_SUFFIX };
enum { POOL_SMALL_VIEWS, POOL_LARGE_VIEWS, POOL_PRIVATE_VIEWS, POOL_ARENA_VIEWS };
enum { POOL_BLOCK_GONE, POOL_BLOCK_LIVE, POOL_BLOCK_PENDING };

struct pool_page {
	uint32_t handle, view, next, root;
};

struct pool_run {
	uint64_t key[2]; /* by address: start; by size: size << START_BITS | start */
	uint32_t kid[2][2];
	uint32_t view;
};

struct pool_handle {
	uint32_t heap, alias, aliases;
	uint16_t used, edge[2], big;
	struct {
		uint32_t next, prev;
	} link[2];
};

struct pool_edges {
	uint32_t head[POOL_EDGE_CLASSES];
	uint64_t some[POOL_EDGE_CLASSES / 64];
};

struct pool_sizes {
	uint32_t root[POOL_CLASSES];
	uint64_t some[POOL_CLASS_WORDS];
};

struct pool_heap {
	uint64_t stream, pool;
	bool over;
	uint32_t free;
	int64_t free_count, handles;
	struct pool_edges edges[2];
	struct pool_sizes sizes[2];
	uint32_t views[4];
};

struct pool_view {
	uint32_t heap, list, base, n, room;
	uint8_t class;
	bool big, lost;
	int64_t blocks, free;
	uint64_t fence;
	bool dirty;
	uint64_t used;
	uint32_t next, prev;
};

struct pool_block {
	uint64_t at, size;
	uint32_t view, users;
	int32_t fences;
	uint8_t state;
	bool whole, quick;
	uint16_t less;
};

struct pool_hint {
	uint64_t key, at[2], epoch;
};

struct pool_counter {
	uint64_t key, epoch, n;
};

struct pool_table {
	uint64_t *key;
	uint32_t *val;
	uint64_t mask;
};

/* engine.Counters */
struct pool_counters {
	uint64_t clock;
	int64_t load, peak_load, peak_held, pending, blocks;
	uint64_t sticky, fits, epoch, ordinals, spare_run, spare_block;
	uint64_t run_n, block_n, hint_n, count_n;
	uint64_t block_used, hint_used, count_used;
	uint64_t known, follow;
};

struct stalloc_pool {
	/* 1: the engine has its state, or somebody is at work on it. */
	_Atomic uint32_t taken;
	uint32_t broken; /* an equation did not hold: the state is of no use any more */
	struct pool_counters now;
	uint64_t until;	/* the clock at which the engine wants to be asked again */
	uint64_t base, small_limit;
	uint64_t most; /* units of a block that the borrower may serve */
	uint32_t hinted;
	uint64_t run_room, block_room, hint_room, count_room; /* capacities */
	struct pool_page *pages;
	uint64_t *starts[POOL_LEVELS];
	uint64_t levels;
	struct pool_run *runs;
	struct pool_handle *handles;
	struct pool_heap *heaps;
	struct pool_view *views;
	struct pool_block *blocks;
	struct pool_hint *hints;
	struct pool_counter *counts;
	struct pool_table heap_at, block_at, hint_at, count_at;
};

/* engine/table.go: open addressing, linear probing, at most half full. */
static inline uint64_t pool_mix(uint64_t x) {
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	return x ^ x >> 33;
}

static inline uint32_t pool_get(const struct pool_table *t, uint64_t key) {
	for (uint64_t i = pool_mix(key) & t->mask; t->val[i] != 0; i = (i + 1) & t->mask)
		if (t->key[i] == key) return t->val[i];
	return 0;
}

/* Whether another key can be put without the table having to grow. */
static inline bool pool_has_room(const struct pool_table *t, uint64_t used) { return 2 * (used + 1) <= t->mask + 1; }

/* Adds a key that is not there. */
static inline void pool_put(struct pool_table *t, uint64_t *used, uint64_t key, uint32_t val) {
	uint64_t i = pool_mix(key) & t->mask;
	while (t->val[i] != 0) i = (i + 1) & t->mask;
	t->key[i] = key;
	t->val[i] = val;
	++*used;
}

static inline bool pool_del(struct pool_table *t, uint64_t *used, uint64_t key) {
	uint64_t i = pool_mix(key) & t->mask;
	for (;; i = (i + 1) & t->mask) {
		if (t->val[i] == 0) return false;
		if (t->key[i] == key) break;
	}
	for (uint64_t j = (i + 1) & t->mask; t->val[j] != 0; j = (j + 1) & t->mask) {
		uint64_t home = pool_mix(t->key[j]) & t->mask;
		if (((j - home) & t->mask) < ((j - i) & t->mask)) continue;
		t->key[i] = t->key[j];
		t->val[i] = t->val[j];
		i = j;
	}
	t->val[i] = 0;
	--*used;
	return true;
}

#endif
