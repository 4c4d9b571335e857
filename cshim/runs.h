/* The free runs of views, as engine/index.go and engine/runs.go keep them. The
 * caller has the pool. */
#ifndef STALLOC_RUNS_H
#define STALLOC_RUNS_H

#include "lent.h"

static inline uint64_t run_start(const struct pool_run *r) { return r->key[POOL_BY_ADDR]; }
static inline uint64_t run_size(const struct pool_run *r) { return r->key[POOL_BY_SIZE] >> POOL_START_BITS; }
static inline uint64_t run_end(const struct pool_run *r) { return run_start(r) + run_size(r); }

static inline void run_set(struct pool_run *r, uint64_t start, uint64_t end) {
	r->key[POOL_BY_ADDR] = start;
	r->key[POOL_BY_SIZE] = (end - start) << POOL_START_BITS | start;
}

/* Sets of pages: a tree of bitmaps, 64 children a node. */
static inline void pages_set(struct stalloc_pool *p, uint32_t x) {
	for (uint64_t l = 0; l < p->levels; l++, x >>= 6) {
		uint64_t *w = &p->starts[l][x >> 6], full = *w;
		*w |= (uint64_t)1 << (x & 63);
		if (full) return;
	}
}

static inline void pages_reset(struct stalloc_pool *p, uint32_t x) {
	for (uint64_t l = 0; l < p->levels; l++, x >>= 6) {
		uint64_t *w = &p->starts[l][x >> 6];
		*w &= ~((uint64_t)1 << (x & 63));
		if (*w) return;
	}
}

/* The largest member not above x; false: there is none. */
static inline bool pages_floor(const struct stalloc_pool *p, uint32_t x, uint32_t *found) {
	for (uint64_t l = 0; l < p->levels; l++, x >>= 6) {
		uint64_t below = p->starts[l][x >> 6] & (((uint64_t)1 << (x & 63)) - 1);
		if (l == 0) below |= p->starts[l][x >> 6] & (uint64_t)1 << (x & 63);
		if (!below) continue;
		x = (x & ~63u) | (uint32_t)(63 - __builtin_clzll(below));
		for (; l > 0; l--) x = x << 6 | (uint32_t)(63 - __builtin_clzll(p->starts[l - 1][x]));
		*found = x;
		return true;
	}
	return false;
}

/* Treaps over the table of runs. */
static inline uint32_t run_priority(uint32_t n) {
	n *= 2654435761u;
	n ^= n >> 15;
	return n * 2246822519u;
}

static inline void run_insert(struct pool_run *nodes, uint32_t *root, uint32_t n, int by) {
	uint64_t key = nodes[n].key[by];
	uint32_t priority = run_priority(n), *p = root;
	while (*p != 0 && run_priority(*p) >= priority) p = &nodes[*p].kid[by][key >= nodes[*p].key[by]];
	uint32_t rest = *p, *low = &nodes[n].kid[by][0], *high = &nodes[n].kid[by][1];
	*p = n;
	while (rest != 0) {
		struct pool_run *c = &nodes[rest];
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

static inline void run_remove(struct pool_run *nodes, uint32_t *root, uint32_t n, int by) {
	uint64_t key = nodes[n].key[by];
	uint32_t *p = root;
	while (*p != n) p = &nodes[*p].kid[by][key >= nodes[*p].key[by]];
	uint32_t low = nodes[n].kid[by][0], high = nodes[n].kid[by][1];
	while (low != 0 && high != 0) {
		if (run_priority(low) >= run_priority(high)) {
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

static inline uint32_t run_at_most(const struct pool_run *nodes, uint32_t root, uint64_t key, int by) {
	uint32_t best = 0;
	while (root != 0) {
		bool fits = nodes[root].key[by] <= key;
		best = fits ? root : best;
		root = nodes[root].kid[by][fits];
	}
	return best;
}

static inline uint32_t run_at_least(const struct pool_run *nodes, uint32_t root, uint64_t key, int by) {
	uint32_t best = 0;
	while (root != 0) {
		bool fits = nodes[root].key[by] >= key;
		best = fits ? root : best;
		root = nodes[root].kid[by][!fits];
	}
	return best;
}

/* Runs by size: one class per unit up to 32 units, then 32 per doubling. */
static inline uint32_t size_class(uint64_t n) {
	if (n < 1u << POOL_CLASS_BITS) return (uint32_t)n;
	uint32_t e = 63u - (uint32_t)__builtin_clzll(n) - POOL_CLASS_BITS;
	return (e << POOL_CLASS_BITS) + (uint32_t)(n >> e);
}

static inline void sizes_add(struct stalloc_pool *p, struct pool_sizes *s, uint32_t r) {
	uint32_t c = size_class(run_size(&p->runs[r]));
	run_insert(p->runs, &s->root[c], r, POOL_BY_SIZE);
	s->some[c >> 6] |= (uint64_t)1 << (c & 63);
}

static inline void sizes_drop(struct stalloc_pool *p, struct pool_sizes *s, uint32_t r) {
	uint32_t c = size_class(run_size(&p->runs[r]));
	run_remove(p->runs, &s->root[c], r, POOL_BY_SIZE);
	if (s->root[c] == 0) s->some[c >> 6] &= ~((uint64_t)1 << (c & 63));
}

/* The smallest run that holds n units, the lowest of that size; 0: none. */
static inline uint32_t sizes_best_fit(const struct stalloc_pool *p, const struct pool_sizes *s, uint64_t n) {
	uint32_t c = size_class(n), r = run_at_least(p->runs, s->root[c], n << POOL_START_BITS, POOL_BY_SIZE);
	if (r != 0) return r;
	c++;
	for (uint32_t w = c >> 6; w < POOL_CLASS_WORDS; w++) {
		uint64_t word = s->some[w];
		if (w == c >> 6) word &= ~(uint64_t)0 << (c & 63);
		if (word) return run_at_least(p->runs, s->root[w << 6 | (uint32_t)__builtin_ctzll(word)], 0, POOL_BY_SIZE);
	}
	return 0;
}

/* The index by size that the runs of a view are in; NULL: none. */
static inline struct pool_sizes *sizes_of(struct stalloc_pool *p, uint32_t view) {
	const struct pool_view *v = &p->views[view];
	return v->list >= POOL_PRIVATE_VIEWS ? NULL : &p->heaps[v->heap].sizes[v->list];
}

/* The run with the largest start not above a place, in whatever view; 0: none. */
static inline uint32_t run_locate(const struct stalloc_pool *p, uint64_t at) {
	uint32_t page = (uint32_t)(at >> POOL_PAGE_SHIFT), before;
	uint32_t r = run_at_most(p->runs, p->pages[page].root, at, POOL_BY_ADDR);
	if (r != 0 || page == 0 || !pages_floor(p, page - 1, &before)) return r;
	return run_at_most(p->runs, p->pages[before].root, UINT64_MAX, POOL_BY_ADDR);
}

static inline void run_hang(struct stalloc_pool *p, uint32_t r) {
	uint32_t page = (uint32_t)(run_start(&p->runs[r]) >> POOL_PAGE_SHIFT);
	if (p->pages[page].root == 0) pages_set(p, page);
	run_insert(p->runs, &p->pages[page].root, r, POOL_BY_ADDR);
}

static inline void run_unhang(struct stalloc_pool *p, uint32_t r) {
	uint32_t page = (uint32_t)(run_start(&p->runs[r]) >> POOL_PAGE_SHIFT);
	run_remove(p->runs, &p->pages[page].root, r, POOL_BY_ADDR);
	if (p->pages[page].root == 0) pages_reset(p, page);
}

static inline void run_add(struct stalloc_pool *p, uint32_t view, uint64_t lo, uint64_t hi) {
	uint32_t r = (uint32_t)p->now.spare_run;
	if (r != 0)
		p->now.spare_run = p->runs[r].kid[POOL_BY_ADDR][0];
	else
		r = (uint32_t)p->now.run_n++;
	p->runs[r] = (struct pool_run){.view = view};
	run_set(&p->runs[r], lo, hi);
	run_hang(p, r);
	struct pool_sizes *s = sizes_of(p, view);
	if (s) sizes_add(p, s, r);
}

static inline void run_del(struct stalloc_pool *p, uint32_t r) {
	struct pool_sizes *s = sizes_of(p, p->runs[r].view);
	if (s) sizes_drop(p, s, r);
	run_unhang(p, r);
	p->runs[r] = (struct pool_run){.kid[POOL_BY_ADDR][0] = (uint32_t)p->now.spare_run};
	p->now.spare_run = r;
}

static inline void run_reshape(struct stalloc_pool *p, uint32_t r, uint64_t lo, uint64_t hi) {
	struct pool_run *n = &p->runs[r];
	struct pool_sizes *s = sizes_of(p, n->view);
	if (s) sizes_drop(p, s, r);
	if (run_start(n) >> POOL_PAGE_SHIFT == lo >> POOL_PAGE_SHIFT) {
		run_set(n, lo, hi);
	} else {
		run_unhang(p, r);
		run_set(n, lo, hi);
		run_hang(p, r);
	}
	if (s) sizes_add(p, s, r);
}

/* Removes [lo, hi) from the run of a view that holds it. */
static inline void run_take(struct stalloc_pool *p, uint32_t view, uint64_t lo, uint64_t hi) {
	uint32_t r = run_locate(p, lo);
	uint64_t start = run_start(&p->runs[r]), end = run_end(&p->runs[r]);
	if (r == 0 || p->runs[r].view != view || start > lo || end < hi) {
		p->broken = 1;
		p->until = 0;
	} else if (start == lo && end == hi) {
		run_del(p, r);
	} else if (start == lo) {
		run_reshape(p, r, hi, end);
	} else {
		run_reshape(p, r, start, lo);
		if (end != hi) run_add(p, view, hi, end);
	}
}

/* Adds [lo, hi) to the runs of a view; returns the run it became part of as a
 * range. */
static inline void run_give(struct stalloc_pool *p, uint32_t view, uint64_t lo, uint64_t hi, uint64_t *start, uint64_t *end) {
	const struct pool_view *v = &p->views[view];
	uint32_t before = run_locate(p, lo), after = 0;
	*start = lo;
	*end = hi;
	if (before != 0 && (p->runs[before].view != view || run_end(&p->runs[before]) != lo)) before = 0;
	if (hi < (uint64_t)(v->base + v->n) << POOL_PAGE_SHIFT) {
		after = run_at_most(p->runs, p->pages[hi >> POOL_PAGE_SHIFT].root, hi, POOL_BY_ADDR);
		if (after != 0 && run_start(&p->runs[after]) != hi) after = 0;
	}
	if (after != 0) *end = run_end(&p->runs[after]);
	if (before != 0) {
		*start = run_start(&p->runs[before]);
		if (after != 0) run_del(p, after);
		run_reshape(p, before, *start, *end);
	} else if (after != 0) {
		run_reshape(p, after, *start, *end);
	} else {
		run_add(p, view, *start, *end);
	}
}

#endif
