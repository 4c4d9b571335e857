/* The quick cases of a device: a request that its stream's tape expects or that a gap
 * serves, and the free of a block that nobody else uses. Go does the same (stream/wish,
 * engine/onerange) and everything else; lock-step tests hold the two together. The caller
 * holds the device's lock. */
#ifndef STALLOC_TAPE_H
#define STALLOC_TAPE_H

#include <stdlib.h>

#include "range.h"
#include "shared.h"

static inline void stalloc_push(struct stalloc_log *l, uint64_t addr, uint64_t info) {
	if (!l->recording) return;
	if (__builtin_expect(l->count == STALLOC_MOST_EVENTS, 0)) {
		l->lost++;
		l->lost_ever++;
		return;
	}
	l->events[l->count++] = (struct stalloc_event){addr, info};
}

static inline void stalloc_observe(struct stalloc_device *d, uint64_t at, uint64_t n, uint32_t heap, uint32_t kind) {
	stalloc_push(&d->log, d->range.base + at * STALLOC_GRAIN, n << 24 | (uint64_t)(heap >> 16 ? 0 : heap) << 8 | kind);
}

/* allocated is also read without the lock. */
static inline void stalloc_count_in(struct stalloc_device *d, int64_t rounded, int64_t asked) {
	struct stalloc_counts *c = &d->counts;
	int64_t allocated = c->allocated + rounded, active = allocated + d->range.now.pending;
	__atomic_store_n(&c->allocated, allocated, __ATOMIC_RELAXED);
	c->requests++;
	c->allocated_total += (uint64_t)rounded;
	if (allocated > c->peak_allocated) c->peak_allocated = allocated;
	if (active > c->peak_active) c->peak_active = active;
	if ((c->requested += asked) > c->peak_requested) c->peak_requested = c->requested;
	if (++c->blocks > c->peak_blocks) c->peak_blocks = c->blocks;
}

static inline void stalloc_count_out(struct stalloc_device *d, int64_t rounded, int64_t asked) {
	struct stalloc_counts *c = &d->counts;
	__atomic_store_n(&c->allocated, c->allocated - rounded, __ATOMIC_RELAXED);
	c->requested -= asked;
	c->blocks--;
	c->freed_total += (uint64_t)rounded;
}

/* Puts a block of n units where it is wished. 0: that is not free, and nothing has
 * changed. */
static inline uint64_t tape_hit(struct stalloc_range *r, struct range_space *s, uint64_t at, uint64_t n, uint64_t less) {
	uint32_t g = range_room(r) ? gap_holding(r, s, at, n) : 0;
	if (g == 0) return 0;
	range_enter(r, s, g, at, n, less);
	range_count_in(r, s, n);
	r->now.wished++;
	s->version++;
	return at;
}

static inline bool tape_expects(const struct stalloc_tape *t, uint64_t n) {
	return t->reel && t->state.cursor < t->reel->n && t->reel->entries[t->state.cursor] >> STALLOC_PLACE_BITS == n;
}

static inline void tape_step(struct stalloc_tape *t, bool hit) {
	t->state.cursor++;
	t->state.strays = 0;
	t->state.matched++;
	t->state.hits += hit;
	t->state.misses += !hit;
}

/* The address of a block for a request; 0: Go must serve it, and nothing has changed. */
static inline uint64_t stalloc_serve(struct stalloc_device *d, struct stalloc_stream *st, uint64_t asked) {
	struct stalloc_range *r = &d->range;
	uint64_t n = stalloc_units_of(asked), less = n * STALLOC_GRAIN - asked, at = 0;
	if (!range_open(r)) return 0;
	if (__builtin_expect(st->heap == 0, 0) && (st->heap = range_heap_of(r, st->id)) == 0) return 0;
	bool small = n <= r->small_limit, hit = false;
	struct stalloc_tape *t = &st->tapes[small];
	struct range_space *s = &r->spaces[r->heaps[st->heap].spaces[small]];
	if (t->reel) {
		if (!tape_expects(t, n)) return 0;
		uint64_t place = t->reel->entries[t->state.cursor] & (((uint64_t)1 << STALLOC_PLACE_BITS) - 1);
		if (place != 0) { /* where it is not free, Go may have to ask the driver for fences, or for memory */
			if ((at = tape_hit(r, s, place, n, less)) == 0) return 0;
			hit = true;
		}
	}
	if (at == 0 && (r->tape_only || n > r->most || (at = range_alloc(r, s, n, less)) == 0)) return 0;
	if (t->reel) tape_step(t, hit);
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, st->heap, hit ? STALLOC_EV_HIT : STALLOC_EV_MISS);
	return r->base + at * STALLOC_GRAIN;
}

/* Frees a block. False: Go must, or there is none; nothing has changed. */
static inline bool stalloc_give(struct stalloc_device *d, uint64_t addr) {
	struct stalloc_range *r = &d->range;
	uint64_t offset = addr - r->base, at = offset / STALLOC_GRAIN;
	if (!range_open(r) || addr < r->base || offset % STALLOC_GRAIN != 0 || at >> RANGE_START_BITS != 0) return false;
	uint32_t b = range_block_at(r, at);
	if (b == 0) return false;
	uint64_t n = r->blocks[b].size, less = r->blocks[b].less;
	stalloc_count_out(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)(n * STALLOC_GRAIN - less));
	stalloc_observe(d, at, n, r->spaces[r->blocks[b].space].heap, STALLOC_EV_FREE);
	range_free(r, b);
	return true;
}

/* Announces a free, or what is to be counted, without the lock. False: the host has no
 * memory left. */
static inline bool stalloc_announce(struct stalloc_device *d, uint32_t kind, uint64_t addr, uint64_t asked) {
	struct stalloc_announced *n = malloc(sizeof *n), *head = STALLOC_RELAXED(d->announced);
	if (!n) return false;
	*n = (struct stalloc_announced){.kind = kind, .addr = addr, .asked = asked};
	do {
		n->next = head;
	} while (!atomic_compare_exchange_weak(&d->announced, &head, n));
	return true;
}

static __attribute__((noinline, unused)) void stalloc_perform(struct stalloc_device *d) {
	struct stalloc_announced *n = atomic_exchange_explicit(&d->announced, NULL, memory_order_acquire), *next;
	for (; n; n = next) {
		int64_t asked = (int64_t)n->asked, rounded = (int64_t)stalloc_round(n->asked);
		if (n->kind == STALLOC_COUNT_IN) stalloc_count_in(d, rounded, asked);
		if (n->kind == STALLOC_COUNT_OUT) stalloc_count_out(d, rounded, asked);
		if (n->kind != STALLOC_FREE || stalloc_give(d, n->addr)) n->kind = STALLOC_DONE;
		next = n->next;
		n->next = STALLOC_RELAXED(d->left);
		STALLOC_PUT(d->left, n);
	}
}

/* Does what other threads announced. */
static inline void stalloc_drain(struct stalloc_device *d) {
	if (__builtin_expect(STALLOC_RELAXED(d->announced) != NULL, 0)) stalloc_perform(d);
}

#endif
