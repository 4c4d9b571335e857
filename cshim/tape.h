/* The quick cases of a device: a request that its stream's tape expects or that a gap
 * serves, and the free of a block that nobody else uses. Go does the same (stream/wish,
 * engine/onerange) and everything else; lock-step tests hold the two together. The caller
 * holds the device's lock. */
#ifndef STALLOC_TAPE_H
#define STALLOC_TAPE_H

#include <stdlib.h>

#include "range.h"
#include "reel.h"
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

/* A hit is served without the range, which hears of the block when it needs to: before Go
 * has the lock, and where another request is looked up in it. So that no two live blocks
 * share a byte nevertheless, an entry is verified: at the space's present version all of
 * its bytes were free once. The version rises with every take of bytes in the space by
 * anything but a hit, and when a part of the list was not served in its order. As long as
 * it has not, only blocks of this tape can lie there, and of those only the entry's
 * frontier: whoever had some of the bytes before was gone when one of these was put there. */

/* Has the range know the blocks of a tape. */
static __attribute__((noinline, unused)) void tape_tell(struct stalloc_range *r, struct stalloc_tape *t) {
	struct stalloc_reel *l = t->reel;
	for (uint32_t i = 0; i < l->dirty_n; i++) {
		struct stalloc_place *p = &l->places[l->dirty[i]];
		p->dirty = false;
		if (p->entry == 0 || p->indexed) continue;
		uint64_t e = l->entries[p->entry - 1];
		struct range_space *s = &r->spaces[t->space];
		uint32_t g = gap_holding(r, s, entry_place(e), entry_size(e));
		if (g == 0) { /* an equation does not hold */
			r->broken = 1;
			r->until = 0;
			break;
		}
		range_enter(r, s, g, entry_place(e), entry_size(e), p->less);
		p->indexed = true;
	}
	l->dirty_n = 0;
}

static inline void tape_sync(struct stalloc_range *r, struct stalloc_tape *t) {
	if (t->reel && t->reel->dirty_n != 0) tape_tell(r, t);
}

/* Has the range know all blocks: before Go has the lock. */
static inline void stalloc_sync(struct stalloc_device *d) {
	for (struct stalloc_tape *t = d->unknown; t; t = t->next) {
		tape_sync(&d->range, t);
		t->unknown = false;
	}
	d->unknown = NULL;
}

/* Begins a list, which is told by now (stalloc_sync), in place of another. */
static inline void stalloc_tape_play(struct stalloc_tape *t, struct stalloc_reel *r) {
	stalloc_reel_free(t->reel);
	t->reel = r;
	t->cursor = 0;
}

static inline bool tape_expects(const struct stalloc_tape *t, uint64_t n) {
	return t->state.cursor < t->reel->n && entry_size(t->reel->entries[t->state.cursor]) == n;
}

static inline void tape_step(struct stalloc_tape *t, bool hit) {
	t->cursor = ++t->state.cursor;
	t->matched = ++t->state.matched;
	t->state.strays = 0;
	t->hits = t->state.hits += hit;
	t->state.misses += !hit;
}

/* Looks at what others have done since the last hit. */
static __attribute__((noinline, unused)) void tape_look(struct range_space *s, struct stalloc_tape *t) {
	const struct stalloc_tape_state *now = &t->state;
	bool in_order = now->cursor == t->cursor && now->matched == t->matched;
	bool begun = now->cursor == 0 && now->matched == 0 && t->cursor == t->reel->n;
	if (now->cursor == t->cursor + 1 && now->matched == t->matched + 1 && now->hits == t->hits + 1 && s->version == t->version + 1) {
		/* Go has served a hit, and nothing else. */
		struct stalloc_slot *slot = &t->reel->slots[t->cursor];
		struct stalloc_place *p = &t->reel->places[slot->place];
		p->entry = t->cursor + 1;
		p->indexed = true;
		slot->version = s->version = t->version;
	} else if (!in_order && !begun) {
		s->version++;
	}
	t->version = s->version;
	t->cursor = now->cursor;
	t->matched = now->matched;
	t->hits = now->hits;
}

/* Whether a block lives, or may live, in a place of an entry's frontier or its own. */
static inline bool tape_blocked(const struct stalloc_reel *l, const struct stalloc_slot *slot) {
	uint32_t live = l->places[slot->place].entry;
	for (uint32_t i = slot[0].frontier; i < slot[1].frontier; i++) live |= l->places[l->frontier[i]].entry;
	return live != 0;
}

/* Forgets a block that the range has freed. */
static inline void tape_forget(const struct stalloc_range *r, const struct stalloc_reel *l, struct stalloc_place *p) {
	if (p->indexed && start_get(r, entry_place(l->entries[p->entry - 1])) == 0) {
		p->entry = 0;
		p->indexed = false;
	}
}

/* Serves the entry under the cursor, which is for this request, with the range's help.
 * False: its bytes are not free, and nothing has changed. */
static __attribute__((noinline, unused)) bool tape_ask(struct stalloc_range *r, struct range_space *s, struct stalloc_tape *t, uint64_t less) {
	struct stalloc_reel *l = t->reel;
	struct stalloc_slot *slot = &l->slots[t->state.cursor];
	uint64_t e = l->entries[t->state.cursor];
	tape_sync(r, t);
	uint32_t g = gap_holding(r, s, entry_place(e), entry_size(e));
	if (g == 0) return false;
	for (uint32_t i = slot[0].frontier; i < slot[1].frontier; i++) tape_forget(r, l, &l->places[l->frontier[i]]);
	range_enter(r, s, g, entry_place(e), entry_size(e), less);
	struct stalloc_place *p = &l->places[slot->place];
	p->entry = t->state.cursor + 1;
	p->indexed = true;
	slot->version = t->version;
	return true;
}

/* Serves the entry under the cursor where it is wished. False: that is not free. */
static inline bool tape_hit(struct stalloc_device *d, struct range_space *s, struct stalloc_tape *t, uint64_t less) {
	struct stalloc_reel *l = t->reel;
	struct stalloc_slot *slot = &l->slots[t->state.cursor];
	if (__builtin_expect(s->version != t->version || t->state.cursor != t->cursor || t->state.matched != t->matched, 0)) tape_look(s, t);
	if (!range_room(&d->range)) return false;
	if (__builtin_expect(slot->version != t->version || tape_blocked(l, slot), 0)) {
		if (!tape_ask(&d->range, s, t, less)) return false;
	} else {
		struct stalloc_place *p = &l->places[slot->place];
		p->entry = t->state.cursor + 1;
		p->less = (uint16_t)less;
		if (!p->dirty) {
			p->dirty = true;
			l->dirty[l->dirty_n++] = slot->place;
		}
		if (!t->unknown) {
			t->unknown = true;
			t->next = d->unknown;
			d->unknown = t;
		}
	}
	range_count_in(&d->range, s, entry_size(l->entries[t->state.cursor]));
	d->range.now.wished++;
	tape_step(t, true);
	return true;
}

/* The address of a block for a request; 0: Go must serve it, and nothing has changed. */
static inline uint64_t stalloc_serve(struct stalloc_device *d, struct stalloc_stream *st, uint64_t asked) {
	struct stalloc_range *r = &d->range;
	uint64_t n = stalloc_units_of(asked), less = n * STALLOC_GRAIN - asked, at = 0;
	if (!range_open(r)) return 0;
	if (__builtin_expect(st->heap == 0, 0) && (st->heap = range_heap_of(r, st->id)) == 0) return 0;
	bool small = n <= r->small_limit, hit = false;
	struct stalloc_tape *t = &st->tapes[small];
	t->space = r->heaps[st->heap].spaces[small];
	struct range_space *s = &r->spaces[t->space];
	if (t->reel) {
		if (!tape_expects(t, n)) return 0;
		at = entry_place(t->reel->entries[t->state.cursor]);
		hit = at != 0;
		/* Where it is not free, Go may have to ask the driver for fences, or for memory. */
		if (hit && !tape_hit(d, s, t, less)) return 0;
	}
	if (!hit) {
		if (r->tape_only || n > r->most) return 0;
		tape_sync(r, t);
		if ((at = range_alloc(r, s, n, less)) == 0) return 0;
		if (t->reel) tape_step(t, false);
	}
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, st->heap, hit ? STALLOC_EV_HIT : STALLOC_EV_MISS);
	return r->base + at * STALLOC_GRAIN;
}

static inline void stalloc_count_free(struct stalloc_device *d, uint64_t at, uint64_t n, uint64_t less, uint32_t heap) {
	stalloc_count_out(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)(n * STALLOC_GRAIN - less));
	stalloc_observe(d, at, n, heap, STALLOC_EV_FREE);
}

/* The live place of a stream's tapes at which a block begins, and its tape; NULL: none. */
static inline struct stalloc_place *place_of(struct stalloc_stream *st, uint64_t at, bool small, struct stalloc_tape **tape) {
	for (int i = 0; i < 2; i++, small = !small) {
		struct stalloc_tape *t = &st->tapes[small];
		uint32_t place = t->reel ? reel_find(t->reel, at) : REEL_NONE;
		if (place == REEL_NONE || t->reel->places[place].entry == 0) continue;
		*tape = t;
		return &t->reel->places[place];
	}
	return NULL;
}

/* Frees a block. The stream and the size only say where to look first. False: Go must, or
 * there is none; nothing has changed. */
static inline bool stalloc_give(struct stalloc_device *d, struct stalloc_stream *st, uint64_t addr, uint64_t size) {
	struct stalloc_range *r = &d->range;
	uint64_t offset = addr - r->base, at = offset / STALLOC_GRAIN;
	struct stalloc_tape *t;
	if (!range_open(r) || addr < r->base || offset % STALLOC_GRAIN != 0 || at >> RANGE_START_BITS != 0) return false;
	struct stalloc_place *p = st ? place_of(st, at, size <= r->small_limit * STALLOC_GRAIN, &t) : NULL;
	uint32_t b = p ? 0 : range_block_at(r, at);
	if (__builtin_expect(!p && b == 0, 0)) /* another stream's, or none */
		for (st = STALLOC_RELAXED(d->streams); st && !(p = place_of(st, at, false, &t));) st = st->next;
	if (p && !p->indexed) {
		uint64_t n = entry_size(t->reel->entries[p->entry - 1]);
		range_count_out(r, &r->spaces[t->space], n);
		stalloc_count_free(d, at, n, p->less, st->heap);
		p->entry = 0;
		return true;
	}
	if (p && (b = range_block_at(r, at)) != 0) {
		p->entry = 0;
		p->indexed = false;
	}
	if (b == 0) return false; /* it may live on: the place stays as it is */
	stalloc_count_free(d, at, r->blocks[b].size, r->blocks[b].less, r->spaces[r->blocks[b].space].heap);
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
		if (n->kind != STALLOC_FREE || stalloc_give(d, NULL, n->addr, 0)) n->kind = STALLOC_DONE;
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
