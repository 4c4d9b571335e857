/* What is kept of requests and frees: the log of events, the counts of live blocks, and what
 * quick hits and frees may do before either is looked at. The caller holds the device's
 * lock. */
#ifndef STALLOC_COUNTS_H
#define STALLOC_COUNTS_H

#include "brief.h"
#include "range.h"

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
	brief_read(l);
	l->next = l->read = l->events;
	l->end = recording && l->events ? l->events + STALLOC_MOST_EVENTS : l->events;
	l->lost = 0;
}

static inline uint64_t stalloc_info(uint64_t n, uint32_t heap) { return n << 24 | (uint64_t)(heap >> 16 ? 0 : heap) << 8; }

static inline void stalloc_observe(struct stalloc_device *d, uint64_t at, uint64_t n, uint32_t heap, uint32_t kind) {
	stalloc_push(&d->log, d->range.base + at * STALLOC_GRAIN, stalloc_info(n, heap) | kind);
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
}

static __attribute__((noinline, unused)) void stalloc_add(struct stalloc_device *d) {
	struct stalloc_counts *c = &d->counts;
	struct range_counters *now = &d->range.now;
	const struct stalloc_allowance *a = &d->allowance;
	int64_t bytes = (a->units.granted - a->units.left) * STALLOC_GRAIN, blocks = a->blocks.granted - a->blocks.left;
	__atomic_store_n(&c->allocated, c->allocated + bytes, __ATOMIC_RELAXED);
	c->requested += a->asked.granted - a->asked.left;
	c->blocks += blocks;
	now->load += bytes;
	now->blocks += blocks;
	now->clock += (uint64_t)(d->log.next - d->first);
}

/* Adds what quick hits and frees have changed to the counts; there are none until the next
 * stalloc_grant. */
static inline void stalloc_fold(struct stalloc_device *d) {
	if (d->last && d->log.next != d->first) stalloc_add(d);
	d->first = d->last = NULL;
}

static inline int64_t stalloc_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Allows quick hits and frees as far as the engine does, there is room and no peak is
 * passed. Folded. */
static inline void stalloc_grant(struct stalloc_device *d) {
	const struct range_counters *now = &d->range.now;
	const struct stalloc_counts *c = &d->counts;
	int64_t room = stalloc_least(d->range.block_most - now->blocks, d->log.end - d->log.next);
	uint64_t open = range_open(&d->range) ? d->range.until - now->clock : 0;
	int64_t bytes = stalloc_least(stalloc_least(now->peak_load - now->load, now->peak_held - now->load - now->pending),
				      stalloc_least(c->peak_allocated - c->allocated, c->peak_active - c->allocated - now->pending));
	d->first = d->log.next;
	d->last = d->first + (open < (uint64_t)room ? (int64_t)open : room);
	struct stalloc_allowance *a = &d->allowance;
	a->blocks.left = a->blocks.granted = c->peak_blocks - c->blocks;
	a->units.left = a->units.granted = bytes / (int64_t)STALLOC_GRAIN;
	a->asked.left = a->asked.granted = c->peak_requested - c->requested;
}

#endif
