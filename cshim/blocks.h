/* The blocks of the pool that a stream's requests got, and those among them that
 * were freed and that the engine has not been told of.
 *
 * A program frees a block and soon asks for one of the same size. While no plan is
 * served, the free of such a block stays here, and the next request of its size has
 * it at once: neither enters the engine. Any other request takes all these frees
 * along, so the engine decides as if it had heard of each when it came. Before
 * anything else that looks at the pool (a boundary, statistics, memory running out,
 * the free of an address that nobody knows) they are told as well.
 *
 * Which addresses are blocks, and of what size, is written down here and not taken
 * from the caller. All of it is under the stream's lock. */
#ifndef STALLOC_BLOCKS_H
#define STALLOC_BLOCKS_H

#include <stdlib.h>
#include <string.h>

#include "tape.h"

/* In the asked of a block: another stream uses it, its free needs a fence. */
#define STALLOC_BLOCK_PINNED ((uint64_t)1 << 63)

static inline uint32_t stalloc_block_home(const struct stalloc_stream *s, uint64_t addr) {
	return (uint32_t)(addr / STALLOC_GRAIN * 0x9E3779B97F4A7C15u >> 32) & s->block_mask;
}

static inline struct stalloc_block *stalloc_block_find(const struct stalloc_stream *s, uint64_t addr) {
	if (!s->blocks) return NULL;
	for (uint32_t at = stalloc_block_home(s, addr); s->blocks[at].addr; at = (at + 1) & s->block_mask)
		if (s->blocks[at].addr == addr) return &s->blocks[at];
	return NULL;
}

static __attribute__((noinline, unused)) bool stalloc_blocks_grow(struct stalloc_stream *s) {
	uint32_t size = s->blocks ? 2 * (s->block_mask + 1) : 1024, old = s->blocks ? s->block_mask + 1 : 0;
	struct stalloc_block *from = s->blocks, *to = calloc(size, sizeof *to);
	if (!to) return false;
	s->blocks = to;
	s->block_mask = size - 1;
	for (uint32_t i = 0; i < old; i++) {
		if (!from[i].addr) continue;
		uint32_t at = stalloc_block_home(s, from[i].addr);
		while (to[at].addr) at = (at + 1) & s->block_mask;
		to[at] = from[i];
	}
	free(from);
	return true;
}

/* Notes a block. One that cannot be noted for want of memory is freed in the engine,
 * like one that the stream does not know. */
static inline void stalloc_block_put(struct stalloc_stream *s, uint64_t addr, uint64_t asked) {
	if ((!s->blocks || 2 * s->block_count > s->block_mask) && !stalloc_blocks_grow(s)) return;
	uint32_t at = stalloc_block_home(s, addr);
	while (s->blocks[at].addr && s->blocks[at].addr != addr) at = (at + 1) & s->block_mask;
	s->block_count += s->blocks[at].addr == 0;
	s->blocks[at] = (struct stalloc_block){addr, asked};
}

/* Takes a block out and closes the gap. */
static inline void stalloc_block_drop(struct stalloc_stream *s, struct stalloc_block *b) {
	uint32_t gap = (uint32_t)(b - s->blocks), at = gap;
	for (;;) {
		at = (at + 1) & s->block_mask;
		if (!s->blocks[at].addr) break;
		uint32_t home = stalloc_block_home(s, s->blocks[at].addr);
		if (((at - home) & s->block_mask) < ((at - gap) & s->block_mask)) continue;
		s->blocks[gap] = s->blocks[at];
		gap = at;
	}
	s->blocks[gap].addr = 0;
	s->block_count--;
}

/* The newest idle block of exactly so many rounded bytes, handed out, or 0. */
static inline uint64_t stalloc_reuse(struct stalloc_stream *s, uint64_t rounded, uint64_t asked) {
	for (uint32_t n = STALLOC_RELAXED(s->idle), i = n; i-- > 0;) {
		if (s->idle_size[i] != rounded) continue;
		uint64_t addr = s->idle_addr[i];
		memmove(s->idle_addr + i, s->idle_addr + i + 1, (n - i - 1) * sizeof *s->idle_addr);
		memmove(s->idle_size + i, s->idle_size + i + 1, (n - i - 1) * sizeof *s->idle_size);
		STALLOC_PUT(s->idle, n - 1);
		stalloc_block_put(s, addr, asked);
		return addr;
	}
	return 0;
}

/* Takes the oldest idle blocks, at most `most`, into out. */
static inline uint32_t stalloc_take_idle(struct stalloc_stream *s, uint32_t most, uint64_t *out) {
	uint32_t n = STALLOC_RELAXED(s->idle), taken = n < most ? n : most;
	memcpy(out, s->idle_addr, taken * sizeof *out);
	memmove(s->idle_addr, s->idle_addr + taken, (n - taken) * sizeof *s->idle_addr);
	memmove(s->idle_size, s->idle_size + taken, (n - taken) * sizeof *s->idle_size);
	STALLOC_PUT(s->idle, n - taken);
	return taken;
}

/* Keeps a freed block. There must be room. */
static inline void stalloc_keep_idle(struct stalloc_stream *s, uint64_t addr, uint64_t rounded) {
	uint32_t n = STALLOC_RELAXED(s->idle);
	s->idle_addr[n] = addr;
	s->idle_size[n] = rounded;
	STALLOC_PUT(s->idle, n + 1);
}

#endif
