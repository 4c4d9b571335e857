/* Occupied and free units: handles, their lists, and the views that map a handle
 * twice, as engine/heap.go, edge.go and runs.go keep them. The caller has the pool. */
#ifndef STALLOC_HANDLES_H
#define STALLOC_HANDLES_H

#include "runs.h"

/* The lists of a heap's handles. */
static inline void handle_push(struct stalloc_pool *p, uint32_t *head, uint32_t x, int side) {
	p->handles[x].link[side].next = *head;
	p->handles[x].link[side].prev = 0;
	if (*head != 0) p->handles[*head].link[side].prev = x;
	*head = x;
}

static inline void handle_pull(struct stalloc_pool *p, uint32_t *head, uint32_t x, int side) {
	uint32_t next = p->handles[x].link[side].next, prev = p->handles[x].link[side].prev;
	if (next != 0) p->handles[next].link[side].prev = prev;
	if (prev != 0)
		p->handles[prev].link[side].next = next;
	else
		*head = next;
}

static inline void handle_enlist(struct stalloc_pool *p, uint32_t x) {
	const struct pool_handle *c = &p->handles[x];
	struct pool_heap *h = &p->heaps[c->heap];
	if (c->used == 0) {
		h->free_count++;
		handle_push(p, &h->free, x, POOL_PREFIX);
		return;
	}
	for (int side = 0; side < 2; side++) {
		uint32_t n = c->edge[side] >> POOL_EDGE_SHIFT;
		if (c->edge[side] == 0) continue;
		handle_push(p, &h->edges[side].head[n], x, side);
		h->edges[side].some[n >> 6] |= (uint64_t)1 << (n & 63);
	}
}

static inline void handle_delist(struct stalloc_pool *p, uint32_t x) {
	const struct pool_handle *c = &p->handles[x];
	struct pool_heap *h = &p->heaps[c->heap];
	if (c->used == 0) {
		h->free_count--;
		handle_pull(p, &h->free, x, POOL_PREFIX);
		return;
	}
	for (int side = 0; side < 2; side++) {
		uint32_t n = c->edge[side] >> POOL_EDGE_SHIFT;
		if (c->edge[side] == 0) continue;
		handle_pull(p, &h->edges[side].head[n], x, side);
		if (h->edges[side].head[n] == 0) h->edges[side].some[n >> 6] &= ~((uint64_t)1 << (n & 63));
	}
}

/* Counts the wholly free pages of every view of its heap that maps a handle. */
static inline void handle_count_free(struct stalloc_pool *p, uint32_t x, int64_t delta) {
	for (uint32_t q = p->handles[x].alias; q != 0; q = p->pages[q].next) {
		struct pool_view *v = &p->views[p->pages[q].view];
		if (v->heap == p->handles[x].heap) v->free += delta;
	}
}

/* Units [lo, hi) of a handle, free until now, are taken. */
static inline void handle_occupy(struct stalloc_pool *p, uint32_t x, uint32_t lo, uint32_t hi) {
	struct pool_handle *c = &p->handles[x];
	handle_delist(p, x);
	if (c->used == 0 && hi - lo < POOL_PAGE_UNITS) handle_count_free(p, x, -1);
	c->used = (uint16_t)(c->used + hi - lo);
	if (lo < c->edge[POOL_PREFIX]) c->edge[POOL_PREFIX] = (uint16_t)lo;
	if (POOL_PAGE_UNITS - hi < c->edge[POOL_SUFFIX]) c->edge[POOL_SUFFIX] = (uint16_t)(POOL_PAGE_UNITS - hi);
	handle_enlist(p, x);
}

/* Units [lo, hi) are free again, and lie now in the free range [from, to). */
static inline void handle_vacate(struct stalloc_pool *p, uint32_t x, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to) {
	struct pool_handle *c = &p->handles[x];
	handle_delist(p, x);
	c->used = (uint16_t)(c->used - (hi - lo));
	if (from == 0) c->edge[POOL_PREFIX] = (uint16_t)to;
	if (to == POOL_PAGE_UNITS) c->edge[POOL_SUFFIX] = (uint16_t)(POOL_PAGE_UNITS - from);
	if (c->used == 0 && hi - lo < POOL_PAGE_UNITS) handle_count_free(p, x, +1);
	handle_enlist(p, x);
}

/* Counts the wholly free pages of a view that lie in [lo, hi) as a whole. */
static inline void view_count_whole(struct stalloc_pool *p, uint32_t view, uint64_t lo, uint64_t hi, bool give) {
	int64_t from = (int64_t)((lo + POOL_PAGE_MASK) >> POOL_PAGE_SHIFT), to = (int64_t)(hi >> POOL_PAGE_SHIFT);
	if (from < to) p->views[view].free += give ? to - from : from - to;
}

/* Pages, at most most, on which a view maps from page q on what is mapped from
 * page a on. */
static inline uint32_t pages_common(const struct stalloc_pool *p, uint32_t a, uint32_t q, uint32_t view, uint32_t most) {
	uint32_t m = 1;
	while (m < most && p->pages[a + m].handle == p->pages[q + m].handle && p->pages[q + m].view == view) m++;
	return m;
}

/* Repeats a change of [lo, hi) in the aliases of its handles: engine/runs.go. */
static inline void pool_mirror(struct stalloc_pool *p, uint64_t lo, uint64_t hi, bool give) {
	uint32_t first = (uint32_t)(lo >> POOL_PAGE_SHIFT), last = (uint32_t)((hi - 1) >> POOL_PAGE_SHIFT);
	const struct pool_page *pages = p->pages;
	view_count_whole(p, pages[first].view, lo, hi, give);
	for (uint32_t a = first; a <= last;) {
		uint32_t x = pages[a].handle, step = last - a + 1;
		for (uint32_t q = p->handles[x].alias; q != 0; q = pages[q].next) {
			if (q == a) continue;
			uint32_t view = pages[q].view;
			if (p->views[view].heap != p->handles[x].heap) {
				step = 1;
				continue;
			}
			if (a > first && pages[q - 1].handle == pages[a - 1].handle && pages[q - 1].view == view) {
				step = pages_common(p, a, q, view, step);
				continue;
			}
			uint32_t m = pages_common(p, a, q, view, last - a + 1);
			if (m < step) step = m;
			uint64_t shift = ((uint64_t)q - (uint64_t)a) << POOL_PAGE_SHIFT, start, end; /* may wrap around */
			uint64_t from = (uint64_t)a << POOL_PAGE_SHIFT, to = (uint64_t)(a + m) << POOL_PAGE_SHIFT;
			from = (from < lo ? lo : from) + shift;
			to = (to < hi ? to : hi) + shift;
			if (give)
				run_give(p, view, from, to, &start, &end);
			else
				run_take(p, view, from, to);
			view_count_whole(p, view, from, to, give);
		}
		uint32_t n = p->handles[x].aliases;
		for (a++; step > 1 && p->handles[pages[a].handle].aliases == n; step--) a++;
	}
}

static inline void pool_take_units(struct stalloc_pool *p, uint32_t view, uint64_t lo, uint64_t hi) {
	run_take(p, view, lo, hi);
	pool_mirror(p, lo, hi, false);
	for (uint64_t at = lo, next; at < hi; at = next) {
		next = (at | POOL_PAGE_MASK) + 1;
		if (next > hi) next = hi;
		handle_occupy(p, p->pages[at >> POOL_PAGE_SHIFT].handle, at & POOL_PAGE_MASK, ((next - 1) & POOL_PAGE_MASK) + 1);
	}
}

static inline void pool_give_units(struct stalloc_pool *p, uint32_t view, uint64_t lo, uint64_t hi) {
	uint64_t start, end;
	run_give(p, view, lo, hi, &start, &end);
	pool_mirror(p, lo, hi, true);
	for (uint64_t at = lo, next; at < hi; at = next) {
		uint64_t page = at & ~(uint64_t)POOL_PAGE_MASK, behind = page + POOL_PAGE_UNITS;
		next = hi < behind ? hi : behind;
		uint32_t from = (uint32_t)((start > page ? start : page) - page), to = (uint32_t)((end < behind ? end : behind) - page);
		handle_vacate(p, p->pages[at >> POOL_PAGE_SHIFT].handle, (uint32_t)(at - page), (uint32_t)(next - page), from, to);
	}
}

/* Whether the runs that a change of [lo, hi) may add, at most one at every place
 * where it is repeated, are there without a longer array. */
static inline bool pool_room_for(const struct stalloc_pool *p, uint64_t lo, uint64_t hi) {
	uint64_t most = 1;
	for (uint64_t page = lo >> POOL_PAGE_SHIFT; page <= (hi - 1) >> POOL_PAGE_SHIFT; page++)
		most += p->handles[p->pages[page].handle].aliases;
	return p->now.run_n + most <= p->run_room;
}

#endif
