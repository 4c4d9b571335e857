/* The quick cases of a device: a request that its stream's cursor expects or that a gap
 * serves, and the free of a block that nobody else uses. Go does the same (stream/schedule,
 * engine/onerange) and everything else; a lock-step test holds the two together. The caller
 * holds the device's lock. */
#ifndef STALLOC_FASTPATH_H
#define STALLOC_FASTPATH_H

#include "shared.h"

static __attribute__((noinline, unused)) void stalloc_lose(struct stalloc_log *l) {
	l->lost += l->end != l->events;
	l->lost_ever += l->end != l->events;
}

static inline void stalloc_push(struct stalloc_log *l, uint64_t addr, uint64_t info) {
	struct stalloc_event *e = l->next;
	if (__builtin_expect(e == l->end, 0)) {
		stalloc_lose(l);
		return;
	}
	l->next = e + 1;
	*e = (struct stalloc_event){addr, info};
}

/* Begins the log anew, or ends it. */
static inline void stalloc_log_begin(struct stalloc_log *l, bool recording) {
	l->next = l->events;
	l->end = recording && l->events ? l->events + STALLOC_MOST_EVENTS : l->events;
	l->lost = 0;
}

static inline uint64_t stalloc_info(uint64_t n, uint32_t heap) { return n << 24 | (uint64_t)(heap >> 16 ? 0 : heap) << 8; }

static inline void stalloc_observe(struct stalloc_device *d, uint64_t at, uint64_t n, uint32_t heap, uint32_t kind) {
	stalloc_push(&d->log, d->base + at * STALLOC_GRAIN, stalloc_info(n, heap) | kind);
}

static __attribute__((noinline, unused)) void stalloc_raise(struct stalloc_counts *c) {
	for (int i = 0; i < STALLOC_POOLS * STALLOC_METERS; i++) {
		struct stalloc_meter *m = &c->now.of[i / STALLOC_METERS][i % STALLOC_METERS];
		if (m->current + m->beside > m->peak) m->peak = m->current + m->beside;
	}
}

/* What is allocated is also read without the lock. */
static inline bool meter_add(struct stalloc_meter *m, int64_t n) {
	int64_t now = m->current + n;
	__atomic_store_n(&m->current, now, __ATOMIC_RELAXED);
	m->total += n;
	return now + m->beside > m->peak;
}

static inline int64_t stalloc_pending(const struct stalloc_device *d) { return d->index.now.pending * (int64_t)STALLOC_GRAIN; }

static inline void stalloc_count_in(struct stalloc_device *d, int64_t rounded, int64_t asked) {
	struct stalloc_counts *c = &d->counts;
	int64_t by[STALLOC_METERS] = {1, rounded, asked};
	struct stalloc_meter *all = c->now.of[STALLOC_POOL_ALL], *its = c->now.of[rounded <= 1 << 20 ? STALLOC_POOL_SMALL : STALLOC_POOL_LARGE];
	bool top = false;
	for (int i = 0; i < STALLOC_METERS; i++) {
		top |= meter_add(&all[i], by[i]);
		top |= meter_add(&its[i], by[i]);
		if (all[i].current > c->peak[i]) c->peak[i] = all[i].current;
	}
	int64_t active = all[STALLOC_ALLOCATED].current + stalloc_pending(d);
	if (active > c->peak_active) c->peak_active = active;
	if (__builtin_expect(!top, 1)) return;
	if (all[STALLOC_BLOCKS].beside != 0)
		STALLOC_PUT(c->stale, true);
	else
		stalloc_raise(c);
}

static inline void stalloc_count_out(struct stalloc_device *d, int64_t rounded, int64_t asked) {
	int64_t by[STALLOC_METERS] = {1, rounded, asked};
	struct stalloc_meter *all = d->counts.now.of[STALLOC_POOL_ALL], *its = d->counts.now.of[rounded <= 1 << 20 ? STALLOC_POOL_SMALL : STALLOC_POOL_LARGE];
	for (int i = 0; i < STALLOC_METERS; i++) {
		__atomic_store_n(&all[i].current, all[i].current - by[i], __ATOMIC_RELAXED);
		its[i].current -= by[i];
	}
}

static inline uint64_t entry_size(uint64_t e) { return e >> INDEX_PLACE_BITS; }
static inline uint64_t entry_place(uint64_t e) { return e & (((uint64_t)1 << INDEX_PLACE_BITS) - 1); }

/* Whether a request of n units is the next one of a cursor. */
static inline bool cursor_expects(const struct stalloc_cursor *t, uint64_t n) {
	return t->at < t->n && !t->silent && entry_size(t->entries[t->at]) == n;
}

/* A request was served: the one that was expected, or another, behind which the step is another one. */
static inline void cursor_step(struct stalloc_cursor *t, bool expected) {
	t->at += expected;
	t->silent |= !expected && t->n > 0;
}

/* The same for a request that Go serves: the entry that was expected, or 0. */
static inline uint64_t cursor_next(struct stalloc_cursor *t, uint64_t n) {
	bool expected = cursor_expects(t, n);
	cursor_step(t, expected);
	return expected ? t->entries[t->at - 1] : 0;
}

/* Begins with a list of entries. */
static inline void cursor_play(struct stalloc_cursor *t, const uint64_t *entries, uint32_t n) {
	t->entries = entries;
	t->n = n;
	t->at = 0;
	t->silent = false;
}

/* The address of a block for a request; 0: Go must serve it, and nothing has changed. */
static inline uint64_t stalloc_serve(struct stalloc_device *d, struct stalloc_stream *st, uint64_t asked) {
	struct stalloc_index *x = &d->index;
	uint64_t n = stalloc_units_of(asked), at = 0;
	bool small = n <= d->small_limit;
	struct stalloc_cursor *t = &st->cursors[small];
	if (__builtin_expect(d->may.left == 0 || !index_room(x) || (st->heap = index_heap(x, st->id, st->heap)) == 0, 0)) return 0;
	uint32_t arena = 2 * st->heap + small, g;
	struct index_arena *s = &x->arenas[arena];
	bool expected = cursor_expects(t, n);
	if (expected) at = entry_place(t->entries[t->at]);
	bool hit = at != 0;
	if (hit) { /* where a planned offset is not free, Go may have to ask the driver for fences, or for memory */
		if ((g = gap_holding(x, s, at, n)) == 0) return 0;
	} else {
		if (n > d->may.most || (g = gap_best_fit(x, s, n)) == 0) return 0;
		at = gap_start(&x->gaps[g]);
	}
	index_put(x, (struct index_block){.at = at, .size = (uint32_t)n, .arena = arena, .less = (uint16_t)(n * STALLOC_GRAIN - asked)}, g);
	x->now.hits += hit;
	x->now.fits += !hit;
	cursor_step(t, expected);
	t->hits += hit;
	t->misses += !hit && t->n > 0;
	d->may.left--;
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, st->heap, hit ? STALLOC_EV_HIT : STALLOC_EV_MISS);
	return d->base + at * STALLOC_GRAIN;
}

/* Frees a block. False: Go must, or there is none; nothing has changed. */
static inline bool stalloc_give(struct stalloc_device *d, uint64_t addr) {
	struct stalloc_index *x = &d->index;
	uint64_t offset = addr - d->base, at = offset / STALLOC_GRAIN;
	if (__builtin_expect(d->may.left == 0 || offset % STALLOC_GRAIN != 0 || at >> INDEX_PLACE_BITS != 0, 0)) return false;
	uint32_t b = start_get(x, at);
	const struct index_block *c = &x->blocks[b];
	if (b == 0 || c->state != INDEX_PLAIN) return false;
	d->may.left--;
	stalloc_count_out(d, (int64_t)c->size * STALLOC_GRAIN, (int64_t)c->size * STALLOC_GRAIN - c->less);
	stalloc_observe(d, at, c->size, c->arena / 2, STALLOC_EV_FREE);
	index_drop(x, b);
	return true;
}

/* Announces a free without the lock. False: the host has no memory left. */
static inline bool stalloc_announce(struct stalloc_device *d, uint64_t addr) {
	struct stalloc_announced *n = malloc(sizeof *n), *head = STALLOC_RELAXED(d->announced);
	if (!n) return false;
	n->addr = addr;
	do {
		n->next = head;
	} while (!atomic_compare_exchange_weak(&d->announced, &head, n));
	return true;
}

/* Performs them, the oldest first: steps are told apart by the order of their frees. */
static __attribute__((noinline, unused)) void stalloc_perform(struct stalloc_device *d) {
	struct stalloc_announced *n = atomic_exchange_explicit(&d->announced, NULL, memory_order_acquire), *next, *first = NULL;
	for (; n; n = next) {
		next = n->next;
		n->next = first;
		first = n;
	}
	for (n = first; n; n = next) {
		if (stalloc_give(d, n->addr)) n->addr = 0;
		if (!(next = n->next)) n->next = STALLOC_RELAXED(d->undone);
	}
	if (first) STALLOC_PUT(d->undone, first);
}

/* Does what other threads announced. */
static inline void stalloc_drain(struct stalloc_device *d) {
	if (__builtin_expect(STALLOC_RELAXED(d->announced) != NULL, 0)) stalloc_perform(d);
}

#endif
