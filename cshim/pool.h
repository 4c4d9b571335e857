/* The quick cases of the pool: a request that a free run serves, and its free.
 * They are the engine's own steps (engine/place.go, block.go, runs.go, heap.go) on
 * the engine's own arrays, which it lends between two messages to its actor: the
 * same addresses come out and the same state is left, bit for bit, and a test holds
 * the two together. What needs the driver, a longer array, or a word to anybody
 * else is left to Go.
 *
 * Whoever is at work on the state has `taken`; C only ever tries for it, for bounded
 * work, so it may do so under a stream's lock. */
#ifndef STALLOC_POOL_H
#define STALLOC_POOL_H

#include "handles.h"
#include "shared.h"

#define POOL_MOST_ORDINALS (1u << 20) /* hints of a step */

static inline bool pool_try(struct stalloc_pool *p) {
	return STALLOC_RELAXED(p->taken) == 0 && atomic_exchange_explicit(&p->taken, 1, memory_order_acquire) == 0;
}

static inline void pool_leave(struct stalloc_pool *p) { atomic_store_explicit(&p->taken, 0, memory_order_release); }

/* The heap of a stream outside private pools, 0: none yet. Heaps stay for good. */
static inline uint32_t pool_heap_of(const struct stalloc_pool *p, uint64_t stream) {
	return pool_get(&p->heap_at, pool_mix(stream + 1) ^ pool_mix(0x9e3779b97f4a7c15u));
}

/* What is known about a request before anything is changed. */
struct pool_wish {
	uint64_t size_key, key, ordinal;
	uint32_t count, hint; /* 0: to be made */
	bool hinted;
};

/* Looks the request's hint up: engine/sticky.go. False: an array would have to
 * grow. */
static inline bool wish_find(const struct stalloc_pool *p, uint32_t heap, uint64_t n, struct pool_wish *w) {
	w->hinted = p->hinted && p->now.ordinals < POOL_MOST_ORDINALS;
	w->hint = 0;
	if (!w->hinted) return true;
	w->size_key = pool_mix(n << 16 ^ heap);
	w->count = pool_get(&p->count_at, w->size_key);
	w->ordinal = 1;
	if (w->count == 0) {
		if (p->now.count_n == p->count_room || !pool_has_room(&p->count_at, p->now.count_used)) return false;
	} else if (p->counts[w->count].epoch == p->now.epoch) {
		w->ordinal += p->counts[w->count].n;
	}
	w->key = pool_mix(w->size_key + w->ordinal * 0x9e3779b97f4a7c15u);
	w->hint = pool_get(&p->hint_at, w->key);
	return w->hint != 0 || (p->now.hint_n < p->hint_room && pool_has_room(&p->hint_at, p->now.hint_used));
}

/* Counts the request and notes where it was placed. */
static inline void wish_note(struct stalloc_pool *p, const struct pool_wish *w, uint64_t at) {
	uint32_t count = w->count, hint = w->hint;
	if (!w->hinted) return;
	p->now.ordinals++;
	if (count == 0) {
		count = (uint32_t)p->now.count_n++;
		p->counts[count].key = w->size_key;
		pool_put(&p->count_at, &p->now.count_used, w->size_key, count);
	}
	p->counts[count].epoch = p->now.epoch;
	p->counts[count].n = w->ordinal;
	if (hint == 0) {
		hint = (uint32_t)p->now.hint_n++;
		p->hints[hint] = (struct pool_hint){.key = w->key};
		pool_put(&p->hint_at, &p->now.hint_used, w->key, hint);
	}
	struct pool_hint *h = &p->hints[hint];
	p->now.known += h->epoch + 1 == p->now.epoch;
	h->epoch = p->now.epoch;
	if (h->at[0] == at) return;
	h->at[1] = h->at[0];
	h->at[0] = at;
}

/* A place where the hint is free, and its view; 0: none. */
static inline uint32_t wish_place(const struct stalloc_pool *p, uint32_t heap, uint32_t hint, uint64_t n, uint64_t *at) {
	for (int i = 0; i < 2 && hint != 0; i++) {
		uint64_t to = p->hints[hint].at[i];
		if (to == 0) continue;
		uint32_t view = p->pages[to >> POOL_PAGE_SHIFT].view, r;
		if (p->views[view].heap != heap || (r = run_locate(p, to)) == 0) continue;
		if (p->runs[r].view != view || run_end(&p->runs[r]) < to + n) continue;
		*at = to;
		return view;
	}
	return 0;
}

static inline void pool_add_block(struct stalloc_pool *p, uint32_t view, uint64_t at, uint64_t n, uint64_t less) {
	uint32_t b = (uint32_t)p->now.spare_block;
	if (b != 0)
		p->now.spare_block = p->blocks[b].users;
	else
		b = (uint32_t)p->now.block_n++;
	p->blocks[b] = (struct pool_block){
		.at = at, .size = n, .view = view, .state = POOL_BLOCK_LIVE, .quick = true, .less = (uint16_t)less};
	pool_put(&p->block_at, &p->now.block_used, at + 1, b);
	pool_take_units(p, view, at, at + n);
	p->views[view].blocks++;
	p->views[view].used = p->now.clock;
	p->now.blocks++;
	p->now.load += (int64_t)(n * STALLOC_GRAIN);
	if (p->now.load > p->now.peak_load) p->now.peak_load = p->now.load;
	if (p->now.load + p->now.pending > p->now.peak_held) p->now.peak_held = p->now.load + p->now.pending;
}

/* The address of a block for a request of a heap's stream; 0: the engine must
 * decide, and nothing has changed. The caller has the pool. */
static inline uint64_t pool_alloc(struct stalloc_pool *p, uint32_t heap, uint64_t rounded, uint64_t asked) {
	uint64_t n = rounded / STALLOC_GRAIN, at = 0;
	struct pool_wish w;
	if (p->now.clock >= p->until || n > p->most) return 0;
	if (!pool_has_room(&p->block_at, p->now.block_used)) return 0;
	if (p->now.spare_block == 0 && p->now.block_n == p->block_room) return 0;
	if (!wish_find(p, heap, n, &w)) return 0;
	uint32_t view = n < p->now.follow ? 0 : wish_place(p, heap, w.hint, n, &at), r;
	bool sticky = view != 0;
	if (!sticky) {
		int list = rounded <= p->small_limit ? POOL_SMALL_VIEWS : POOL_LARGE_VIEWS;
		if ((r = sizes_best_fit(p, &p->heaps[heap].sizes[list], n)) == 0) return 0;
		view = p->runs[r].view;
		at = run_start(&p->runs[r]);
	}
	if (p->views[view].list >= POOL_PRIVATE_VIEWS || !pool_room_for(p, at, at + n)) return 0;
	p->now.clock++;
	p->now.sticky += sticky;
	p->now.fits += !sticky;
	pool_add_block(p, view, at, n, rounded - asked);
	wish_note(p, &w, at);
	return p->base + at * STALLOC_GRAIN;
}

/* Frees a block that pool_alloc handed out to a stream and nobody else uses.
 * False: it is another, or the engine must decide; nothing has changed. */
static inline bool pool_free(struct stalloc_pool *p, uint64_t stream, uint64_t addr, uint64_t *rounded, uint64_t *asked) {
	uint64_t offset = addr - p->base, key = offset / STALLOC_GRAIN + 1;
	if (addr < p->base || offset % STALLOC_GRAIN != 0 || p->now.clock >= p->until) return false;
	uint32_t b = pool_get(&p->block_at, key);
	if (b == 0) return false;
	struct pool_block c = p->blocks[b];
	if (c.state != POOL_BLOCK_LIVE || !c.quick || c.users != 0 || !pool_room_for(p, c.at, c.at + c.size)) return false;
	const struct pool_heap *h = &p->heaps[p->views[c.view].heap];
	if (h->stream != stream || h->pool != 0) return false;
	p->now.clock++;
	pool_give_units(p, c.view, c.at, c.at + c.size);
	p->views[c.view].blocks--;
	p->views[c.view].used = p->now.clock;
	pool_del(&p->block_at, &p->now.block_used, key);
	p->now.blocks--;
	*rounded = c.size * STALLOC_GRAIN;
	*asked = *rounded - c.less;
	p->now.load -= (int64_t)*rounded;
	p->blocks[b] = (struct pool_block){.users = (uint32_t)p->now.spare_block};
	p->now.spare_block = b;
	return true;
}

#endif
