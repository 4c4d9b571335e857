/* The gaps of an index (index.h).
 *
 * A gap is a node of two treaps: one by start, and one by (size, start) among the gaps of its size
 * class. The gaps and blocks of an arena also form one list by address, so that a freed block finds
 * its neighbouring gaps at once. Units are 512 bytes. Gaps, blocks and arenas are numbered from 1;
 * 0 means none. */
#ifndef STALLOC_GAPS_H
#define STALLOC_GAPS_H

#include "treap.h"

#define INDEX_CLASS_BITS 5
#define INDEX_CLASSES (32 * (INDEX_PLACE_BITS - INDEX_CLASS_BITS))
#define INDEX_CLASS_WORDS ((INDEX_CLASSES + 63) / 64)

/* index.Block */
struct index_block {
	uint64_t at;
	uint32_t size; /* 0: the number is unused */
	uint32_t arena, prev, next, step;
	uint16_t slack; /* bytes that were not asked for */
	uint8_t state;
	bool in_view; /* it lies in a view; its bytes in the arena are taken separately */
};

struct index_arena {
	uint32_t roots_by_size[INDEX_CLASSES];	/* one treap for each size class */
	uint64_t nonempty[INDEX_CLASS_WORDS]; /* a bit for each class that has a gap */
	uint32_t root_by_place;
	uint32_t first, last, used;
	int64_t free, load, peak;
	uint64_t stream;
	uint64_t pool; /* 0: requests of the stream may be served from it without the engine */
};

struct index_total {
	int64_t load, peak_load, pending, blocks;
	uint64_t hits, fits;
	uint32_t steps;
};

struct stalloc_index {
	struct index_total now;
	struct index_arena *arenas;
	struct index_gap *gaps;
	struct index_block *blocks;
	uint64_t *starts; /* hash table of blocks: start << NUMBER_BITS | number */
	uint32_t start_shift; /* 64 minus the bits of its size */
	uint32_t arena_n;
	uint32_t gap_n, gap_live, gap_capacity; /* gaps ever used, used now, with room */
	uint32_t unused_gap;			/* head of a list; so is unused_block */
	uint32_t block_n, block_capacity, unused_block;
};

/* Gaps by size: one class per unit up to 32 units, then 32 per doubling. */
static inline uint32_t size_class(uint64_t n) {
	if (n < 1u << INDEX_CLASS_BITS) return (uint32_t)n;
	uint32_t e = 63u - (uint32_t)__builtin_clzll(n) - INDEX_CLASS_BITS;
	return (e << INDEX_CLASS_BITS) + (uint32_t)(n >> e);
}

static inline void gap_add_size(struct stalloc_index *x, struct index_arena *s, uint32_t g) {
	uint32_t c = size_class(gap_size(&x->gaps[g]));
	gap_insert(x->gaps, &s->roots_by_size[c], g, INDEX_BY_SIZE);
	s->nonempty[c >> 6] |= (uint64_t)1 << (c & 63);
}

static inline void gap_drop_size(struct stalloc_index *x, struct index_arena *s, uint32_t g) {
	uint32_t c = size_class(gap_size(&x->gaps[g]));
	gap_remove(x->gaps, &s->roots_by_size[c], g, INDEX_BY_SIZE);
	if (s->roots_by_size[c] == 0) s->nonempty[c >> 6] &= ~((uint64_t)1 << (c & 63));
}

/* The smallest gap of a size class or a larger class; 0: none. */
static inline uint32_t gap_of_class(const struct stalloc_index *x, const struct index_arena *s,
				    uint32_t c) {
	for (uint32_t w = c >> 6; w < INDEX_CLASS_WORDS; w++) {
		uint64_t word = s->nonempty[w];
		if (w == c >> 6) word &= ~(uint64_t)0 << (c & 63);
		if (word)
			return gap_at_least(
				x->gaps, s->roots_by_size[w << 6 | (uint32_t)__builtin_ctzll(word)],
				0, INDEX_BY_SIZE);
	}
	return 0;
}

/* The smallest gap of at least n units, the lowest of that size; 0: none. */
static inline uint32_t gap_best_fit(const struct stalloc_index *x, const struct index_arena *s,
				    uint64_t n) {
	uint32_t c = size_class(n), g = gap_at_least(x->gaps, s->roots_by_size[c],
						     n << INDEX_PLACE_BITS, INDEX_BY_SIZE);
	return g ? g : gap_of_class(x, s, c + 1);
}

/* The next gap by (size, place); 0: none. */
static inline uint32_t gap_after(const struct stalloc_index *x, const struct index_arena *s,
				 uint64_t size, uint64_t at) {
	uint32_t g = gap_at_least(x->gaps, s->roots_by_size[size_class(size)],
				  (size << INDEX_PLACE_BITS | at) + 1, INDEX_BY_SIZE);
	return g ? g : gap_of_class(x, s, size_class(size) + 1);
}

/* The gap that contains n units at a place; 0: they are not all free. */
static inline uint32_t gap_holding(const struct stalloc_index *x, const struct index_arena *s,
				   uint64_t at, uint64_t n) {
	uint32_t g = gap_at_most(x->gaps, s->root_by_place, at, INDEX_BY_PLACE);
	return g != 0 && gap_end(&x->gaps[g]) >= at + n ? g : 0;
}

/* Makes a and b neighbours in the arena's list by address. */
static inline void index_join(struct stalloc_index *x, struct index_arena *s, uint32_t a,
			      uint32_t b) {
	*(a == 0 ? &s->first : a & 1 ? &x->blocks[a >> 1].next : &x->gaps[a >> 1].next) = b;
	*(b == 0 ? &s->last : b & 1 ? &x->blocks[b >> 1].prev : &x->gaps[b >> 1].prev) = a;
}

static inline uint32_t gap_link(uint32_t g) { return g << 1; }
static inline uint32_t block_link(uint32_t b) { return b << 1 | 1; }
static inline uint32_t gap_of(uint32_t link) { return link & 1 ? 0 : link >> 1; }

/* Adds a gap between p and n of the list, and returns it. */
static inline uint32_t gap_new(struct stalloc_index *x, struct index_arena *s, uint64_t lo,
			       uint64_t hi, uint32_t p, uint32_t n) {
	uint32_t g = x->unused_gap;
	if (g != 0)
		x->unused_gap = x->gaps[g].next;
	else
		g = ++x->gap_n;
	x->gap_live++;
	x->gaps[g] = (struct index_gap){.key = {lo, (hi - lo) << INDEX_PLACE_BITS | lo}};
	gap_insert(x->gaps, &s->root_by_place, g, INDEX_BY_PLACE);
	gap_add_size(x, s, g);
	index_join(x, s, p, gap_link(g));
	index_join(x, s, gap_link(g), n);
	return g;
}

static inline void gap_drop(struct stalloc_index *x, struct index_arena *s, uint32_t g) {
	gap_drop_size(x, s, g);
	gap_remove(x->gaps, &s->root_by_place, g, INDEX_BY_PLACE);
	x->gaps[g].next = x->unused_gap;
	x->unused_gap = g;
	x->gap_live--;
}

/* Changes the extent of a gap that stays between its neighbours. */
static inline void gap_reshape(struct stalloc_index *x, struct index_arena *s, uint32_t g,
			       uint64_t lo, uint64_t hi) {
	gap_drop_size(x, s, g);
	x->gaps[g].key[INDEX_BY_PLACE] = lo;
	x->gaps[g].key[INDEX_BY_SIZE] = (hi - lo) << INDEX_PLACE_BITS | lo;
	gap_add_size(x, s, g);
}

/* Takes [lo, hi) of a gap, for block b or (0) for something else. */
static inline void index_take(struct stalloc_index *x, struct index_arena *s, uint32_t g,
			      uint64_t lo, uint64_t hi, uint32_t b) {
	uint64_t start = gap_start(&x->gaps[g]), end = gap_end(&x->gaps[g]);
	uint32_t p = x->gaps[g].prev, n = x->gaps[g].next;
	if (end == hi) {
		if (start == lo) {
			gap_drop(x, s, g);
		} else {
			gap_reshape(x, s, g, start, lo);
			p = gap_link(g);
		}
	} else if (start == lo) {
		gap_reshape(x, s, g, hi, end);
		n = gap_link(g);
	} else {
		gap_reshape(x, s, g, start, lo);
		p = gap_link(g);
		n = gap_link(gap_new(x, s, hi, end, p, n));
	}
	if (b != 0) {
		index_join(x, s, p, block_link(b));
		p = block_link(b);
	}
	index_join(x, s, p, n);
	s->free -= (int64_t)(hi - lo);
}

/* The neighbours in the list of a place that no block or gap holds. */
static inline void gap_around(const struct stalloc_index *x, const struct index_arena *s,
			      uint64_t at, uint32_t *p, uint32_t *n) {
	uint32_t g = gap_at_most(x->gaps, s->root_by_place, at, INDEX_BY_PLACE);
	*p = gap_link(g);
	*n = g ? x->gaps[g].next : s->first;
	if (s->last & 1 && x->blocks[s->last >> 1].at < at) *p = s->last, *n = 0;
	while (*n & 1 && x->blocks[*n >> 1].at < at) {
		*p = *n;
		*n = x->blocks[*n >> 1].next;
	}
}

/* Makes [lo, hi), between neighbours p and n, a gap, and merges it with gaps that touch it. */
static inline void index_add_gap(struct stalloc_index *x, struct index_arena *s, uint64_t lo,
				 uint64_t hi, uint32_t p, uint32_t n) {
	uint32_t before = gap_of(p), after = gap_of(n);
	s->free += (int64_t)(hi - lo);
	if (before != 0 && gap_end(&x->gaps[before]) != lo) before = 0;
	if (after != 0 && gap_start(&x->gaps[after]) != hi) after = 0;
	if (before != 0) {
		uint64_t start = gap_start(&x->gaps[before]), end = hi;
		if (after != 0) {
			end = gap_end(&x->gaps[after]);
			n = x->gaps[after].next;
			gap_drop(x, s, after);
		}
		gap_reshape(x, s, before, start, end);
		index_join(x, s, p, n);
	} else if (after != 0) {
		gap_reshape(x, s, after, lo, gap_end(&x->gaps[after]));
		index_join(x, s, p, n);
	} else {
		gap_new(x, s, lo, hi, p, n);
	}
}

#endif
