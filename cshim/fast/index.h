/* The index of a device in a training process: what is free in its address range, and where each
 * block begins. engine/index defines the operations and has a model in Go; a test compares the two
 * (cshim/internal/cindex). The engine uses the index through that package, threads of the program
 * through fastpath.h; both hold the device's lock.
 *
 * Only index_reserve and index_assign allocate memory, and only the engine calls them: the fast
 * path leaves a request that would need more memory to the engine. */
#ifndef STALLOC_INDEX_H
#define STALLOC_INDEX_H

#include <stdlib.h>

#include "gaps.h"

enum { INDEX_FAST, INDEX_KEPT, INDEX_PENDING }; /* index.State */

/* A hash table of blocks by start: open addressing, linear probing, at most half full. */
static inline uint64_t start_home(const struct stalloc_index *x, uint64_t at) {
	return at * 0x9e3779b97f4a7c15u >> x->start_shift;
}
static inline uint64_t start_mask(const struct stalloc_index *x) {
	return ~(uint64_t)0 >> x->start_shift;
}

static inline uint32_t start_get(const struct stalloc_index *x, uint64_t at) {
	uint64_t cell;
	if (__builtin_expect(!x->starts, 0)) return 0; /* there was no request yet */
	for (uint64_t i = start_home(x, at); (cell = x->starts[i]) != 0;
	     i = (i + 1) & start_mask(x))
		if (cell >> INDEX_NUMBER_BITS == at) return cell & ((1u << INDEX_NUMBER_BITS) - 1);
	return 0;
}

static inline void start_put(struct stalloc_index *x, uint64_t at, uint32_t b) {
	uint64_t i = start_home(x, at);
	while (x->starts[i] != 0) i = (i + 1) & start_mask(x);
	x->starts[i] = at << INDEX_NUMBER_BITS | b;
}

static inline void start_del(struct stalloc_index *x, uint64_t at) {
	uint64_t mask = start_mask(x), i = start_home(x, at);
	while (x->starts[i] >> INDEX_NUMBER_BITS != at) i = (i + 1) & mask;
	for (uint64_t j = (i + 1) & mask; x->starts[j] != 0; j = (j + 1) & mask) {
		uint64_t home = start_home(x, x->starts[j] >> INDEX_NUMBER_BITS);
		if (((j - home) & mask) < ((j - i) & mask)) continue;
		x->starts[i] = x->starts[j];
		i = j;
	}
	x->starts[i] = 0;
}

#define INDEX_AHEAD 128 /* blocks that can be added after index_reserve */

/* Makes an array longer; false: the host has no memory. */
#define INDEX_GROW(array, n)                                       \
	({                                                         \
		void *more_ = realloc(array, (n) * sizeof *(array)); \
		if (more_) (array) = more_;                        \
		more_ != NULL;                                     \
	})

/* Makes room for more blocks and the gaps between them. False: the host has no memory. */
static inline bool index_reserve(struct stalloc_index *x) {
	uint64_t blocks = (uint64_t)x->now.blocks + INDEX_AHEAD, gaps = x->gap_live + 2 * blocks;
	uint64_t cells = x->starts ? start_mask(x) + 1 : 0;
	if (gaps >= x->gap_capacity) {
		if (!INDEX_GROW(x->gaps, gaps + gaps / 2)) return false;
		x->gap_capacity = (uint32_t)(gaps + gaps / 2);
	}
	if (blocks < x->block_capacity) return true;
	blocks += blocks / 2;
	if (!INDEX_GROW(x->blocks, blocks)) return false;
	if (2 * blocks > cells) {
		struct stalloc_index more = {.start_shift = 64};
		while ((uint64_t)1 << (64 - more.start_shift) < 2 * blocks) more.start_shift--;
		size_t size = (size_t)1 << (64 - more.start_shift);
		if (!(more.starts = calloc(size, sizeof *more.starts))) return false;
		for (uint64_t i = 0, cell; i < cells; i++)
			if ((cell = x->starts[i]))
				start_put(&more, cell >> INDEX_NUMBER_BITS,
					  cell & ((1u << INDEX_NUMBER_BITS) - 1));
		free(x->starts);
		x->starts = more.starts;
		x->start_shift = more.start_shift;
	}
	x->block_capacity = (uint32_t)blocks;
	return true;
}

/* Makes the arenas of a heap, empty, for a stream of a pool. False: the host has no memory. */
static inline bool index_assign(struct stalloc_index *x, uint32_t heap, uint64_t stream,
				uint64_t pool) {
	uint32_t n = 2 * heap + 2;
	if (n > x->arena_n) {
		if (!INDEX_GROW(x->arenas, n)) return false;
		for (; x->arena_n < n; x->arena_n++)
			x->arenas[x->arena_n] = (struct index_arena){.pool = UINT64_MAX};
	}
	for (uint32_t s = n - 2; s < n; s++)
		x->arenas[s] = (struct index_arena){.stream = stream, .pool = pool};
	return true;
}

/* Whether there is room for one more block, and for every gap that frees may then leave. */
static inline bool index_has_room(const struct stalloc_index *x) {
	return x->now.blocks + 1 < x->block_capacity &&
	       x->gap_live + x->now.blocks + 3 < x->gap_capacity;
}

/* The heap of a stream whose requests may be served without the engine; 0: none. last is the answer
 * to the last lookup, which may be another stream's heap by now. */
static inline uint32_t index_heap(const struct stalloc_index *x, uint64_t stream, uint32_t last) {
	uint32_t h = last;
	if (__builtin_expect(h != 0 && 2 * h < x->arena_n && x->arenas[2 * h].pool == 0 &&
				     x->arenas[2 * h].stream == stream,
			     1))
		return h;
	for (h = x->arena_n / 2; h-- > 1;)
		if (x->arenas[2 * h].pool == 0 && x->arenas[2 * h].stream == stream) return h;
	return 0;
}

/* Adds a block, for which there is room: in gap g, or in a view. */
static inline void index_put(struct stalloc_index *x, struct index_block as, uint32_t g) {
	struct index_arena *s = &x->arenas[as.arena];
	uint32_t b = x->unused_block;
	if (b != 0)
		x->unused_block = x->blocks[b].next;
	else
		b = ++x->block_n;
	as.step = s->used = x->now.steps;
	x->blocks[b] = as;
	start_put(x, as.at, b);
	if (!as.in_view) index_take(x, s, g, as.at, as.at + as.size, b);
	if ((s->load += as.size) > s->peak) s->peak = s->load;
	x->now.blocks++;
	if ((x->now.load += as.size) > x->now.peak_load) x->now.peak_load = x->now.load;
}

/* Changes the state of a block. */
static inline void index_mark(struct stalloc_index *x, struct index_block *c, uint8_t state) {
	int64_t pending =
		((state == INDEX_PENDING) - (c->state == INDEX_PENDING)) * (int64_t)c->size;
	x->now.pending += pending;
	x->now.load -= pending;
	c->state = state;
}

/* Removes a block. */
static inline void index_drop(struct stalloc_index *x, uint32_t b) {
	struct index_block *c = &x->blocks[b];
	struct index_arena *s = &x->arenas[c->arena];
	if (c->state == INDEX_PENDING) index_mark(x, c, INDEX_FAST);
	x->now.blocks--;
	x->now.load -= c->size;
	s->load -= c->size;
	s->used = x->now.steps;
	if (!c->in_view) index_add_gap(x, s, c->at, c->at + c->size, c->prev, c->next);
	start_del(x, c->at);
	c->size = 0;
	c->next = x->unused_block;
	x->unused_block = b;
}

#endif
