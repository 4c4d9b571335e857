/* The index that programs use: what is free of a device's address window, and where each block
 * begins. engine/index says what it answers, and has a model of it; a test holds the two together
 * (cshim/internal/cindex). The engine asks it through that package, threads of the program through
 * quick.h; both hold the device's lock.
 *
 * Nothing here takes memory but index_reserve, which the engine calls ahead: a quick case that
 * would need more is left to it. */
#ifndef STALLOC_INDEX_H
#define STALLOC_INDEX_H

#include <stdlib.h>
#include <string.h>

#include "gaps.h"

enum { INDEX_PLAIN, INDEX_KEPT, INDEX_PENDING }; /* index.State */

/* Blocks by where they begin: open addressing, linear probing, at most half full. */
static inline uint64_t start_home(const struct stalloc_index *x, uint64_t at) { return at * 0x9e3779b97f4a7c15u >> x->start_shift; }
static inline uint64_t start_mask(const struct stalloc_index *x) { return ~(uint64_t)0 >> x->start_shift; }

static inline uint32_t start_get(const struct stalloc_index *x, uint64_t at) {
	uint64_t cell;
	if (__builtin_expect(!x->starts, 0)) return 0; /* nothing was asked for yet */
	for (uint64_t i = start_home(x, at); (cell = x->starts[i]) != 0; i = (i + 1) & start_mask(x))
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


#define INDEX_AHEAD 128 /* blocks that there is room for behind index_reserve */

/* Makes an array longer; false: the host has no memory. */
#define INDEX_LONGER(array, n) ({ void *more_ = realloc(array, (n) * sizeof *(array)); if (more_) (array) = more_; more_ != NULL; })

/* Makes room for some blocks more, and for the gaps beside them. False: the host has no memory. */
static inline bool index_reserve(struct stalloc_index *x) {
	uint64_t blocks = (uint64_t)x->now.blocks + INDEX_AHEAD, gaps = x->gap_live + 2 * blocks, cells = x->starts ? start_mask(x) + 1 : 0;
	if (gaps >= x->gap_most) {
		if (!INDEX_LONGER(x->gaps, gaps + gaps / 2)) return false;
		x->gap_most = (uint32_t)(gaps + gaps / 2);
	}
	if (blocks < x->block_most) return true;
	blocks += blocks / 2;
	if (!INDEX_LONGER(x->blocks, blocks)) return false;
	if (2 * blocks > cells) {
		struct stalloc_index more = {.start_shift = 64};
		while ((uint64_t)1 << (64 - more.start_shift) < 2 * blocks) more.start_shift--;
		if (!(more.starts = calloc((size_t)1 << (64 - more.start_shift), sizeof *more.starts))) return false;
		for (uint64_t i = 0; i < cells; i++)
			if (x->starts[i]) start_put(&more, x->starts[i] >> INDEX_NUMBER_BITS, x->starts[i] & ((1u << INDEX_NUMBER_BITS) - 1));
		free(x->starts);
		x->starts = more.starts;
		x->start_shift = more.start_shift;
	}
	x->block_most = (uint32_t)blocks;
	return true;
}

/* Begins the arenas of a heap, empty ones, for a stream. False: the host has no memory. */
static inline bool index_assign(struct stalloc_index *x, uint32_t heap, uint64_t stream, bool open) {
	uint32_t n = 2 * heap + 2;
	if (n > x->arena_n) {
		if (!INDEX_LONGER(x->arenas, n)) return false;
		memset(x->arenas + x->arena_n, 0, (n - x->arena_n) * sizeof *x->arenas);
		x->arena_n = n;
	}
	for (uint32_t s = n - 2; s < n; s++) x->arenas[s] = (struct index_arena){.stream = stream, .open = open};
	return true;
}

/* Whether another block has room, and every gap that frees may leave. */
static inline bool index_room(const struct stalloc_index *x) {
	return x->now.blocks + 1 < x->block_most && x->gap_live + x->now.blocks + 3 < x->gap_most;
}

/* The heap of a stream whose requests may be served without the engine; 0: none. was: what it was
 * when it was looked up last, which may be another's by now. */
static inline uint32_t index_heap(const struct stalloc_index *x, uint64_t stream, uint32_t was) {
	uint32_t h = was;
	if (__builtin_expect(h != 0 && 2 * h < x->arena_n && x->arenas[2 * h].open && x->arenas[2 * h].stream == stream, 1)) return h;
	for (h = x->arena_n / 2; h-- > 1;)
		if (x->arenas[2 * h].open && x->arenas[2 * h].stream == stream) return h;
	return 0;
}

/* Puts a block, where it does not lie apart in a gap. There is room. */
static inline void index_put(struct stalloc_index *x, struct index_block as, uint32_t g) {
	struct index_arena *s = &x->arenas[as.arena];
	uint32_t b = x->spare_block;
	if (b != 0)
		x->spare_block = x->blocks[b].next;
	else
		b = ++x->block_n;
	as.step = s->used = x->now.steps;
	x->blocks[b] = as;
	start_put(x, as.at, b);
	if (!as.apart) index_take(x, s, g, as.at, as.at + as.size, b);
	if ((s->load += as.size) > s->peak) s->peak = s->load;
	x->now.blocks++;
	if ((x->now.load += as.size) > x->now.peak_load) x->now.peak_load = x->now.load;
}

/* Changes the state of a block. */
static inline void index_mark(struct stalloc_index *x, struct index_block *c, uint8_t state) {
	int64_t pending = ((state == INDEX_PENDING) - (c->state == INDEX_PENDING)) * (int64_t)c->size;
	x->now.pending += pending;
	x->now.load -= pending;
	c->state = state;
}

/* Forgets a block. */
static inline void index_drop(struct stalloc_index *x, uint32_t b) {
	struct index_block *c = &x->blocks[b];
	struct index_arena *s = &x->arenas[c->arena];
	if (c->state == INDEX_PENDING) index_mark(x, c, INDEX_PLAIN);
	x->now.blocks--;
	x->now.load -= c->size;
	s->load -= c->size;
	s->used = x->now.steps;
	if (!c->apart) index_give(x, s, c->at, c->at + c->size, c->prev, c->next);
	start_del(x, c->at);
	c->size = 0;
	c->next = x->spare_block;
	x->spare_block = b;
}

#endif
