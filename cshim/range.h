/* The quick cases of the range: a request that a gap serves, and its free. They are the
 * engine's own steps (engine/onerange: index.go, gaps.go, link.go, block.go, table.go) on
 * the engine's own arrays, which it lends between two messages to its actor: the same
 * addresses come out and the same state is left, bit for bit, and a test holds the two
 * together. What needs the driver, a longer array, or a word to anybody else is left to Go.
 * The caller has the device's lock. */
#ifndef STALLOC_RANGE_H
#define STALLOC_RANGE_H

#include <stddef.h>

#include "lent.h"

static inline uint64_t gap_start(const struct range_gap *g) { return g->key[RANGE_BY_ADDR]; }
static inline uint64_t gap_size(const struct range_gap *g) { return g->key[RANGE_BY_SIZE] >> RANGE_START_BITS; }
static inline uint64_t gap_end(const struct range_gap *g) { return gap_start(g) + gap_size(g); }

/* Two treaps over the table of gaps. */
static inline uint32_t gap_priority(uint32_t n) {
	n *= 2654435761u;
	n ^= n >> 15;
	return n * 2246822519u;
}

/* Where the way to a key goes on below a node. By a branch, which is foreseen where a block
 * was freed and is asked for again; the next node is then loaded before this one's key is
 * compared. */
static inline uint32_t *gap_below(struct range_gap *node, uint64_t key, int by) {
	if (key < node->key[by]) return &node->kid[by][0];
	__asm__ volatile("");
	return &node->kid[by][1];
}

static inline void gap_insert(struct range_gap *nodes, uint32_t *root, uint32_t n, int by) {
	uint64_t key = nodes[n].key[by];
	uint32_t priority = gap_priority(n), *p = root;
	while (*p != 0 && gap_priority(*p) >= priority) p = gap_below(&nodes[*p], key, by);
	uint32_t rest = *p, *low = &nodes[n].kid[by][0], *high = &nodes[n].kid[by][1];
	*p = n;
	while (rest != 0) {
		struct range_gap *c = &nodes[rest];
		if (c->key[by] < key) {
			*low = rest;
			low = &c->kid[by][1];
			rest = *low;
		} else {
			*high = rest;
			high = &c->kid[by][0];
			rest = *high;
		}
	}
	*low = *high = 0;
}

static inline void gap_remove(struct range_gap *nodes, uint32_t *root, uint32_t n, int by) {
	uint64_t key = nodes[n].key[by];
	uint32_t *p = root;
	while (*p != n) p = gap_below(&nodes[*p], key, by);
	uint32_t low = nodes[n].kid[by][0], high = nodes[n].kid[by][1];
	while (low != 0 && high != 0) {
		if (gap_priority(low) >= gap_priority(high)) {
			*p = low;
			p = &nodes[low].kid[by][1];
			low = *p;
		} else {
			*p = high;
			p = &nodes[high].kid[by][0];
			high = *p;
		}
	}
	*p = low | high;
}

static inline uint32_t gap_at_most(const struct range_gap *nodes, uint32_t root, uint64_t key, int by) {
	uint32_t best = 0;
	while (root != 0) {
		bool fits = nodes[root].key[by] <= key;
		best = fits ? root : best;
		root = nodes[root].kid[by][fits];
	}
	return best;
}

static inline uint32_t gap_at_least(const struct range_gap *nodes, uint32_t root, uint64_t key, int by) {
	uint32_t best = 0;
	while (root != 0) {
		bool fits = nodes[root].key[by] >= key;
		best = fits ? root : best;
		root = nodes[root].kid[by][!fits];
	}
	return best;
}

/* Gaps by size: one class per unit up to 32 units, then 32 per doubling. */
static inline uint32_t size_class(uint64_t n) {
	if (n < 1u << RANGE_CLASS_BITS) return (uint32_t)n;
	uint32_t e = 63u - (uint32_t)__builtin_clzll(n) - RANGE_CLASS_BITS;
	return (e << RANGE_CLASS_BITS) + (uint32_t)(n >> e);
}

static inline void gap_add_size(struct stalloc_range *r, struct range_space *s, uint32_t g) {
	uint32_t c = size_class(gap_size(&r->gaps[g]));
	gap_insert(r->gaps, &s->free.root[c], g, RANGE_BY_SIZE);
	s->free.some[c >> 6] |= (uint64_t)1 << (c & 63);
}

static inline void gap_drop_size(struct stalloc_range *r, struct range_space *s, uint32_t g) {
	uint32_t c = size_class(gap_size(&r->gaps[g]));
	gap_remove(r->gaps, &s->free.root[c], g, RANGE_BY_SIZE);
	if (s->free.root[c] == 0) s->free.some[c >> 6] &= ~((uint64_t)1 << (c & 63));
}

/* The smallest gap that holds n units, the lowest of that size; 0: none. */
static inline uint32_t gap_best_fit(const struct stalloc_range *r, const struct range_space *s, uint64_t n) {
	uint32_t c = size_class(n), g = gap_at_least(r->gaps, s->free.root[c], n << RANGE_START_BITS, RANGE_BY_SIZE);
	if (g != 0) return g;
	c++;
	for (uint32_t w = c >> 6; w < RANGE_CLASS_WORDS; w++) {
		uint64_t word = s->free.some[w];
		if (w == c >> 6) word &= ~(uint64_t)0 << (c & 63);
		if (word) return gap_at_least(r->gaps, s->free.root[w << 6 | (uint32_t)__builtin_ctzll(word)], 0, RANGE_BY_SIZE);
	}
	return 0;
}

/* The gap that holds all of n units at a place; 0: they are not free. */
static inline uint32_t gap_holding(const struct stalloc_range *r, const struct range_space *s, uint64_t at, uint64_t n) {
	uint32_t g = gap_at_most(r->gaps, s->free.addrs, at, RANGE_BY_ADDR);
	return g != 0 && gap_end(&r->gaps[g]) >= at + n ? g : 0;
}

/* The list of a space's gaps and blocks by address. */
static inline void range_join(struct stalloc_range *r, struct range_space *s, uint32_t a, uint32_t b) {
	*(a == 0 ? &s->first : a & 1 ? &r->blocks[a >> 1].next : &r->gaps[a >> 1].next) = b;
	*(b == 0 ? &s->last : b & 1 ? &r->blocks[b >> 1].prev : &r->gaps[b >> 1].prev) = a;
}

static inline uint32_t gap_link(uint32_t g) { return g << 1; }
static inline uint32_t block_link(uint32_t b) { return b << 1 | 1; }
static inline uint32_t gap_of(uint32_t link) { return link & 1 ? 0 : link >> 1; }

/* Takes a number that is spare, the next of which it tells, or a new one. */
static inline uint32_t range_number(uint64_t *spare, uint64_t *n, uint32_t next) {
	if (*spare == 0) return (uint32_t)(*n)++;
	uint32_t number = (uint32_t)*spare;
	*spare = next;
	return number;
}

/* Returns the new gap. */
static inline uint32_t gap_new(struct stalloc_range *r, struct range_space *s, uint64_t lo, uint64_t hi, uint32_t p, uint32_t n) {
	uint32_t g = range_number(&r->now.spare_gap, &r->now.gap_n, r->gaps[r->now.spare_gap].space);
	r->gaps[g] = (struct range_gap){.key = {lo, (hi - lo) << RANGE_START_BITS | lo}, .space = (uint32_t)(s - r->spaces)};
	gap_insert(r->gaps, &s->free.addrs, g, RANGE_BY_ADDR);
	gap_add_size(r, s, g);
	range_join(r, s, p, gap_link(g));
	range_join(r, s, gap_link(g), n);
	return g;
}

static inline void gap_drop(struct stalloc_range *r, struct range_space *s, uint32_t g) {
	gap_drop_size(r, s, g);
	gap_remove(r->gaps, &s->free.addrs, g, RANGE_BY_ADDR);
	r->gaps[g] = (struct range_gap){.space = (uint32_t)r->now.spare_gap};
	r->now.spare_gap = g;
}

/* Another extent in the same place of the order by address. */
static inline void gap_reshape(struct stalloc_range *r, struct range_space *s, uint32_t g, uint64_t lo, uint64_t hi) {
	gap_drop_size(r, s, g);
	r->gaps[g].key[RANGE_BY_ADDR] = lo;
	r->gaps[g].key[RANGE_BY_SIZE] = (hi - lo) << RANGE_START_BITS | lo;
	gap_add_size(r, s, g);
}

/* A block takes [lo, hi) of a gap. */
static inline void range_take(struct stalloc_range *r, struct range_space *s, uint32_t g, uint64_t lo, uint64_t hi, uint32_t b) {
	uint64_t start = gap_start(&r->gaps[g]), end = gap_end(&r->gaps[g]);
	uint32_t p = r->gaps[g].prev, n = r->gaps[g].next;
	if (end == hi) {
		if (start == lo) {
			gap_drop(r, s, g);
		} else {
			gap_reshape(r, s, g, start, lo);
			p = gap_link(g);
		}
	} else if (start == lo) {
		gap_reshape(r, s, g, hi, end);
		n = gap_link(g);
	} else {
		gap_reshape(r, s, g, start, lo);
		p = gap_link(g);
		n = gap_link(gap_new(r, s, hi, end, p, n));
	}
	range_join(r, s, p, block_link(b));
	range_join(r, s, block_link(b), n);
	s->units -= (int64_t)(hi - lo);
}

/* A block gives back [lo, hi), which lies between two neighbours. */
static inline void range_give(struct stalloc_range *r, struct range_space *s, uint64_t lo, uint64_t hi, uint32_t p, uint32_t n) {
	uint32_t before = gap_of(p), after = gap_of(n);
	s->units += (int64_t)(hi - lo);
	if (before != 0 && gap_end(&r->gaps[before]) != lo) before = 0;
	if (after != 0 && gap_start(&r->gaps[after]) != hi) after = 0;
	if (before != 0) {
		uint64_t start = gap_start(&r->gaps[before]), end = hi;
		if (after != 0) {
			end = gap_end(&r->gaps[after]);
			n = r->gaps[after].next;
			gap_drop(r, s, after);
		}
		gap_reshape(r, s, before, start, end);
		range_join(r, s, p, n);
	} else if (after != 0) {
		gap_reshape(r, s, after, lo, gap_end(&r->gaps[after]));
		range_join(r, s, p, n);
	} else {
		gap_new(r, s, lo, hi, p, n);
	}
}

/* Blocks by where they begin: open addressing, linear probing, at most half full. */
static inline uint64_t start_home(const struct stalloc_range *r, uint64_t at) { return at * 0x9e3779b97f4a7c15u >> r->start_shift; }
static inline uint64_t start_mask(const struct stalloc_range *r) { return ~(uint64_t)0 >> r->start_shift; }

static inline uint32_t start_get(const struct stalloc_range *r, uint64_t at) {
	uint64_t cell;
	for (uint64_t i = start_home(r, at); (cell = r->starts[i]) != 0; i = (i + 1) & start_mask(r))
		if (cell >> RANGE_NUMBER_BITS == at) return cell & ((1u << RANGE_NUMBER_BITS) - 1);
	return 0;
}

static inline void start_put(struct stalloc_range *r, uint64_t at, uint32_t b) {
	uint64_t i = start_home(r, at);
	while (r->starts[i] != 0) i = (i + 1) & start_mask(r);
	r->starts[i] = at << RANGE_NUMBER_BITS | b;
	r->now.starts++;
}

static inline void start_del(struct stalloc_range *r, uint64_t at) {
	uint64_t mask = start_mask(r), i = start_home(r, at);
	while (r->starts[i] >> RANGE_NUMBER_BITS != at) i = (i + 1) & mask;
	for (uint64_t j = (i + 1) & mask; r->starts[j] != 0; j = (j + 1) & mask) {
		uint64_t home = start_home(r, r->starts[j] >> RANGE_NUMBER_BITS);
		if (((j - home) & mask) < ((j - i) & mask)) continue;
		r->starts[i] = r->starts[j];
		i = j;
	}
	r->starts[i] = 0;
	r->now.starts--;
}

/* The heap of a stream outside private pools, 0: none yet. Heaps stay for good. */
static inline uint32_t range_heap_of(const struct stalloc_range *r, uint64_t stream) {
	uint32_t h = r->heap_n - 1;
	while (h != 0 && (r->heaps[h].stream != stream || r->heaps[h].pool != 0)) h--;
	return h;
}

/* Whether the engine leaves one more event to the quick cases. */
static inline bool range_open(const struct stalloc_range *r) { return r->lent && r->now.clock < r->until; }

/* Whether another block has room in the arrays. */
static inline bool range_room(const struct stalloc_range *r) { return r->now.blocks < r->block_most; }

/* Counts a block in. */
static inline void range_count_in(struct stalloc_range *r, struct range_space *s, uint64_t n) {
	int64_t held = (r->now.load += (int64_t)(n * STALLOC_GRAIN)) + r->now.pending;
	r->now.clock++;
	r->now.blocks++;
	if (r->now.load > r->now.peak_load) r->now.peak_load = r->now.load;
	if (held > r->now.peak_held) r->now.peak_held = held;
	if ((s->load += (int64_t)n) > s->peak) s->peak = s->load;
}

/* Enters a block, all of it free in a gap, into the arrays. */
static inline void range_enter(struct stalloc_range *r, struct range_space *s, uint32_t g, uint64_t at, uint64_t n, uint64_t less) {
	uint32_t b = range_number(&r->now.spare_block, &r->now.block_n, r->blocks[r->now.spare_block].users);
	r->blocks[b] = (struct range_block){
		.at = at, .size = n, .space = (uint32_t)(s - r->spaces), .state = RANGE_BLOCK_LIVE, .less = (uint16_t)less,
		.step = (uint32_t)r->now.steps};
	start_put(r, at, b);
	range_take(r, s, g, at, at + n, b);
}

/* The space of a heap that serves requests of n units. */
static inline struct range_space *range_space_of(const struct stalloc_range *r, uint32_t heap, uint64_t n) {
	return &r->spaces[r->heaps[heap].spaces[n <= r->small_limit ? RANGE_SMALL : RANGE_LARGE]];
}

/* The place of a block for a request of n units, less of whose bytes are not asked for;
 * 0: the engine must decide, and nothing has changed. A brief block goes to its gap's end. */
static inline uint64_t range_alloc(struct stalloc_range *r, struct range_space *s, uint64_t n, uint64_t less, bool brief) {
	uint32_t g = range_room(r) ? gap_best_fit(r, s, n) : 0;
	if (g == 0) return 0;
	uint64_t at = brief ? gap_end(&r->gaps[g]) - n : gap_start(&r->gaps[g]);
	range_enter(r, s, g, at, n, less);
	range_count_in(r, s, n);
	r->now.fits++;
	s->version++;
	return at;
}

/* Puts a block where it is wished. False: its bytes are not free, and nothing has changed. */
static inline bool range_put(struct stalloc_range *r, struct range_space *s, uint64_t at, uint64_t n, uint64_t less) {
	uint32_t g = range_room(r) ? gap_holding(r, s, at, n) : 0;
	if (g == 0) return false;
	range_enter(r, s, g, at, n, less);
	range_count_in(r, s, n);
	r->now.wished++;
	return true;
}

/* The block of the default pools that begins at a place, lies in its space, is live and
 * has no users; 0: another, or none. */
static inline uint32_t range_block_at(const struct stalloc_range *r, uint64_t at) {
	uint32_t b = start_get(r, at);
	if (b == 0) return 0;
	const struct range_block *c = &r->blocks[b];
	if (c->state != RANGE_BLOCK_LIVE || c->users != 0 || c->view != 0) return 0;
	return r->heaps[r->spaces[c->space].heap].pool == 0 ? b : 0;
}

/* Frees such a block. */
static inline void range_free(struct stalloc_range *r, uint32_t b) {
	struct range_block *c = &r->blocks[b];
	struct range_space *s = &r->spaces[c->space];
	r->now.clock++;
	r->now.blocks--;
	r->now.load -= (int64_t)(c->size * STALLOC_GRAIN);
	s->load -= (int64_t)c->size;
	range_give(r, s, c->at, c->at + c->size, c->prev, c->next);
	start_del(r, c->at);
	*c = (struct range_block){.users = (uint32_t)r->now.spare_block};
	r->now.spare_block = b;
}

#endif
