/* The fast path of a device: a request that its stream's cursor expects or that fits a gap, and
 * the free of a block that no other stream uses. Go serves these in the same way
 * (stream/schedule, engine/onerange), and everything else; a test runs the two in lock step
 * (cshim/internal/cquick). The caller holds the device's lock. */
#ifndef STALLOC_FASTPATH_H
#define STALLOC_FASTPATH_H

#include "shared.h"

static __attribute__((noinline, unused)) void stalloc_log_count_lost(struct stalloc_log *l) {
	l->lost += l->end != l->events;
	l->lost_ever += l->end != l->events;
}

static inline void stalloc_log_push(struct stalloc_log *l, uint64_t addr, uint64_t info) {
	struct stalloc_event *e = l->next;
	if (__builtin_expect(e == l->end, 0)) {
		stalloc_log_count_lost(l);
		return;
	}
	l->next = e + 1;
	*e = (struct stalloc_event){addr, info};
}

/* Empties the log, and switches it on or off. */
static inline void stalloc_log_begin(struct stalloc_log *l, bool recording) {
	l->next = l->events;
	l->end = recording && l->events ? l->events + STALLOC_MAX_EVENTS : l->events;
	l->lost = 0;
}

/* The info of an event, without its kind. Heaps beyond 16 bits are logged as 0. */
static inline uint64_t stalloc_info(uint64_t n, uint32_t heap) {
	return n << 24 | (uint64_t)(heap >> 16 ? 0 : heap) << 8;
}

static inline void stalloc_log_block(struct stalloc_device *d, uint64_t at, uint64_t n,
				     uint32_t heap, uint32_t kind) {
	stalloc_log_push(&d->log, d->base + at * STALLOC_GRAIN, stalloc_info(n, heap) | kind);
}

static __attribute__((noinline, unused)) void stalloc_update_peaks(struct stalloc_counts *c) {
	for (int i = 0; i < STALLOC_POOLS * STALLOC_METERS; i++) {
		struct stalloc_meter *m = &c->now.of[i / STALLOC_METERS][i % STALLOC_METERS];
		int64_t both = m->current + m->other;
		if (both > m->peak) m->peak = both;
	}
}

/* Atomic because current is also read without the lock. True: this is a new peak. */
static inline bool meter_add(struct stalloc_meter *m, int64_t n) {
	int64_t now = m->current + n;
	__atomic_store_n(&m->current, now, __ATOMIC_RELAXED);
	m->total += n;
	return now + m->other > m->peak;
}

/* Bytes of freed blocks that other streams still use. */
static inline int64_t stalloc_pending(const struct stalloc_device *d) {
	return d->index.now.pending * (int64_t)STALLOC_GRAIN;
}

/* The pool that a block counts in, beside STALLOC_POOL_ALL. */
static inline int pool_of(int64_t rounded) {
	return rounded <= 1 << 20 ? STALLOC_POOL_SMALL : STALLOC_POOL_LARGE;
}

static inline void stalloc_count_in(struct stalloc_device *d, int64_t rounded,
				    int64_t asked) {
	struct stalloc_counts *c = &d->counts;
	int64_t by[STALLOC_METERS] = {1, rounded, asked};
	struct stalloc_meter *all = c->now.of[STALLOC_POOL_ALL];
	struct stalloc_meter *its = c->now.of[pool_of(rounded)];
	bool top = false;
	for (int i = 0; i < STALLOC_METERS; i++) {
		top |= meter_add(&all[i], by[i]);
		top |= meter_add(&its[i], by[i]);
		if (all[i].current > c->peak[i]) c->peak[i] = all[i].current;
	}
	int64_t now = all[STALLOC_ALLOCATED].current, active = now + stalloc_pending(d);
	if (now > c->highest) c->highest = now;
	if (active > c->peak_active) c->peak_active = active;
	if (__builtin_expect(!top, 1)) return;
	if (all[STALLOC_BLOCKS].other != 0)
		STALLOC_PUT(c->stale, true);
	else
		stalloc_update_peaks(c);
}

static inline void stalloc_count_out(struct stalloc_device *d, int64_t rounded,
				     int64_t asked) {
	int64_t by[STALLOC_METERS] = {1, rounded, asked};
	struct stalloc_meter *all = d->counts.now.of[STALLOC_POOL_ALL];
	struct stalloc_meter *its = d->counts.now.of[pool_of(rounded)];
	for (int i = 0; i < STALLOC_METERS; i++) {
		__atomic_store_n(&all[i].current, all[i].current - by[i], __ATOMIC_RELAXED);
		its[i].current -= by[i];
	}
}

static inline uint64_t entry_size(uint64_t e) { return e >> INDEX_PLACE_BITS; }
static inline uint64_t entry_place(uint64_t e) {
	return e & (((uint64_t)1 << INDEX_PLACE_BITS) - 1);
}

/* Whether the cursor's next entry is a request of n units. */
static inline bool cursor_expects(const struct stalloc_cursor *t, uint64_t n) {
	return t->at < t->n && !t->diverged && entry_size(t->entries[t->at]) == n;
}

/* Moves the cursor past a request that was served. If it was not the expected one, the cursor has
 * diverged: the rest of its schedule says nothing about this step. */
static inline void cursor_step(struct stalloc_cursor *t, bool expected) {
	t->at += expected;
	t->diverged |= !expected && t->n > 0;
}

/* The same for a request that Go serves. Returns its entry; 0: the cursor expected another. */
static inline uint64_t cursor_next(struct stalloc_cursor *t, uint64_t n) {
	bool expected = cursor_expects(t, n);
	cursor_step(t, expected);
	return expected ? t->entries[t->at - 1] : 0;
}

static inline void cursor_set_schedule(struct stalloc_cursor *t, const uint64_t *entries,
				       uint32_t n) {
	t->entries = entries;
	t->n = n;
	t->at = 0;
	t->diverged = false;
}

/* Allocates a block and returns its address; 0: only Go can, and nothing has changed. */
static inline uint64_t stalloc_fast_alloc(struct stalloc_device *d, struct stalloc_stream *st,
					  uint64_t asked) {
	struct stalloc_index *x = &d->index;
	uint64_t n = stalloc_units_of(asked), at = 0;
	bool small = n <= d->small_limit;
	struct stalloc_cursor *t = &st->cursors[small];
	if (__builtin_expect(d->budget.ops == 0 || !index_has_room(x) ||
				     (st->heap = index_heap(x, st->id, st->heap)) == 0,
			     0))
		return 0;
	uint32_t arena = 2 * st->heap + small, g;
	struct index_arena *s = &x->arenas[arena];
	bool expected = cursor_expects(t, n);
	if (expected) at = entry_place(t->entries[t->at]);
	bool hit = at != 0;
	if (hit) { /* if the planned offset is not free, Go may poll events or create memory */
		if ((g = gap_holding(x, s, at, n)) == 0) return 0;
	} else {
		if (n > d->budget.max_units || (g = gap_best_fit(x, s, n)) == 0) return 0;
		at = gap_start(&x->gaps[g]);
	}
	index_put(x,
		  (struct index_block){.at = at, .size = (uint32_t)n, .arena = arena,
				       .slack = (uint16_t)(n * STALLOC_GRAIN - asked)},
		  g);
	x->now.hits += hit;
	x->now.fits += !hit;
	cursor_step(t, expected);
	t->hits += hit;
	t->misses += !hit && t->n > 0;
	d->budget.ops--;
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_log_block(d, at, n, st->heap, hit ? STALLOC_EV_HIT : STALLOC_EV_MISS);
	return d->base + at * STALLOC_GRAIN;
}

/* Frees a block. False: only Go can, or there is no such block; nothing has changed. */
static inline bool stalloc_fast_free(struct stalloc_device *d, uint64_t addr) {
	struct stalloc_index *x = &d->index;
	uint64_t offset = addr - d->base, at = offset / STALLOC_GRAIN;
	if (__builtin_expect(d->budget.ops == 0 || offset % STALLOC_GRAIN != 0 ||
				     at >> INDEX_PLACE_BITS != 0,
			     0))
		return false;
	uint32_t b = start_get(x, at);
	const struct index_block *c = &x->blocks[b];
	if (b == 0 || c->state != INDEX_FAST) return false;
	d->budget.ops--;
	int64_t rounded = (int64_t)c->size * STALLOC_GRAIN;
	stalloc_count_out(d, rounded, rounded - c->slack);
	stalloc_log_block(d, at, c->size, c->arena / 2, STALLOC_EV_FREE);
	index_drop(x, b);
	return true;
}

/* Defers a free to whoever holds the lock. Needs no lock. False: the host has no memory left. */
static inline bool stalloc_defer_free(struct stalloc_device *d, uint64_t addr) {
	struct stalloc_deferred_free *n = malloc(sizeof *n);
	struct stalloc_deferred_free *head = STALLOC_RELAXED(d->deferred_frees);
	if (!n) return false;
	n->addr = addr;
	do {
		n->next = head;
	} while (!atomic_compare_exchange_weak(&d->deferred_frees, &head, n));
	return true;
}

/* Performs the deferred frees, the oldest first: the order of its frees is part of what identifies
 * a step. What only Go can free is left to frees_for_go. */
static __attribute__((noinline, unused)) void stalloc_drain_deferred(struct stalloc_device *d) {
	struct stalloc_deferred_free *n, *next, *first = NULL;
	n = atomic_exchange_explicit(&d->deferred_frees, NULL, memory_order_acquire);
	for (; n; n = next) {
		next = n->next;
		n->next = first;
		first = n;
	}
	for (n = first; n; n = next) {
		if (stalloc_fast_free(d, n->addr)) n->addr = 0;
		if (!(next = n->next)) n->next = STALLOC_RELAXED(d->frees_for_go);
	}
	if (first) STALLOC_PUT(d->frees_for_go, first);
}

/* Performs the frees that other threads have deferred. */
static inline void stalloc_drain(struct stalloc_device *d) {
	if (__builtin_expect(STALLOC_RELAXED(d->deferred_frees) != NULL, 0))
		stalloc_drain_deferred(d);
}

#endif
