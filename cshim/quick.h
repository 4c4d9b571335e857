/* The quick cases of a device: a request that its stream's tape expects or that a gap
 * serves, and the free of a block that nobody else uses. Go does the same (stream/wish,
 * engine/onerange) and everything else; lock-step tests hold the two together. The caller
 * holds the device's lock. */
#ifndef STALLOC_QUICK_H
#define STALLOC_QUICK_H

#include <stdlib.h>

#include "seek.h"
#include "tape.h"

/* Serves the entry under the cursor where it is wished. False: that is not free. */
static inline bool tape_serve(struct stalloc_device *d, struct range_space *s, struct stalloc_tape *t, uint64_t n, uint64_t asked, uint32_t heap) {
	struct stalloc_range *r = &d->range;
	struct stalloc_reel *l = t->reel;
	struct stalloc_slot *slot = &l->slots[t->state.cursor];
	uint64_t at = entry_place(slot->entry);
	tape_look(s, t);
	if (slot->version == t->version && !tape_blocked(r, l, slot)) {
		t->armed = t->version;
		t->slot = slot;
		t->info = stalloc_info(0, heap) | STALLOC_EV_HIT;
		t->state.strays = 0;
		stalloc_grant(d);
		if (stalloc_hit(d, t, n, asked) != 0) return true;
		tape_settle(d, t); /* a new peak, or no event is kept: the long way */
		stalloc_fold(d);
	}
	if (!range_put(r, s, at, n, n * STALLOC_GRAIN - asked)) return false;
	for (uint32_t i = slot[0].frontier; i < slot[1].frontier; i++) tape_forget(r, &l->places[l->frontier[i]]);
	l->places[slot->place].word |= PLACE_LIVE | PLACE_INDEXED;
	slot->version = t->version;
	tape_step(t, true);
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, heap, STALLOC_EV_HIT);
	return true;
}

#define FORESEEN_SLACK 32 /* predict.Slack */

/* Serves a request that the stream's forecast has next, where it is wished. 0: it has not. The
 * bytes are no longer those of the stream's other tape, whose entries may have been verified. */
static inline uint64_t tape_foresee(struct stalloc_range *r, struct range_space *s, struct stalloc_stream *st, uint64_t n, uint64_t asked) {
	struct stalloc_tape *t = &st->tapes[STALLOC_FORESEEN];
	if (!t->reel || t->state.cursor >= t->reel->n) return 0;
	uint64_t e = t->reel->slots[t->state.cursor].entry, most = entry_size(e);
	bool fits = n <= most && n + 1 + most / FORESEEN_SLACK > most && entry_place(e) != 0;
	if (!fits || !range_put(r, s, entry_place(e), n, n * STALLOC_GRAIN - asked)) return 0;
	tape_step(t, true);
	s->version++; /* the other tape in this space knows nothing of it */
	return entry_place(e);
}

/* The address of a block for a request; 0: Go must serve it, and nothing has changed. */
static __attribute__((noinline, unused)) uint64_t stalloc_serve(struct stalloc_device *d, struct stalloc_stream *st, uint64_t asked) {
	struct stalloc_range *r = &d->range;
	uint64_t n = stalloc_units_of(asked), at = 0;
	bool small = n <= r->small_limit;
	struct stalloc_tape *t = &st->tapes[small];
	if (!d->last) stalloc_grant(d); /* no quick hits since the counts were looked at */
	if ((at = stalloc_hit(d, t, n, asked)) != 0) return r->base + at;
	stalloc_fold(d);
	if (!range_open(r)) return 0;
	if (__builtin_expect(st->heap == 0, 0) && (st->heap = range_heap_of(r, st->id)) == 0) return 0;
	t->space = r->heaps[st->heap].spaces[small];
	struct range_space *s = &r->spaces[t->space];
	uint32_t cursor = 0;
	int64_t entry = -1;
	if (t->reel) {
		tape_settle(d, t);
		cursor = t->state.cursor;
		if ((entry = tape_seek(t, n)) >= 0) {
			t->state.cursor = (uint32_t)entry;
			at = entry_place(t->reel->slots[entry].entry);
		}
		/* Where it is not free, Go may have to ask the driver for fences, or for memory. */
		if (at != 0 && tape_serve(d, s, t, n, asked, st->heap)) return r->base + at * STALLOC_GRAIN;
	}
	bool foreseen = at == 0 && n > r->most && !r->tape_only && (at = tape_foresee(r, s, st, n, asked)) != 0;
	if (!foreseen && (at != 0 || r->tape_only || n > r->most || (at = range_alloc(r, s, n, n * STALLOC_GRAIN - asked, !small && stalloc_brief(d, n))) == 0)) {
		if (t->reel) t->state.cursor = cursor;
		return 0;
	}
	if (entry >= 0)
		tape_step(t, false);
	else if (t->reel)
		tape_stray(t, n);
	t->state.misses += t->reel && !foreseen;
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, st->heap, foreseen ? STALLOC_EV_HIT : STALLOC_EV_MISS);
	return r->base + at * STALLOC_GRAIN;
}

/* Frees a block. The stream and the size only say where to look first. False: Go must, or
 * there is none; nothing has changed. */
static __attribute__((noinline, unused)) bool stalloc_give_slowly(struct stalloc_device *d, struct stalloc_stream *first, uint64_t addr) {
	struct stalloc_range *r = &d->range;
	uint64_t at = (addr - r->base) / STALLOC_GRAIN;
	struct stalloc_place *p = NULL;
	stalloc_fold(d);
	if (!range_open(r) || addr < r->base || addr % STALLOC_GRAIN != 0 || at >> RANGE_START_BITS != 0) return false;
	if (first && !(p = tape_find(&first->tapes[0], at))) p = tape_find(&first->tapes[1], at);
	uint32_t b = p && !(p->word & PLACE_INDEXED) ? 0 : range_block_at(r, at);
	if (__builtin_expect(!p && b == 0, 0)) /* another stream's, or none */
		for (struct stalloc_stream *st = STALLOC_RELAXED(d->streams); st && !p; st = st->next)
			if (!(p = tape_find(&st->tapes[0], at))) p = tape_find(&st->tapes[1], at);
	if (p && !(p->word & PLACE_INDEXED)) {
		stalloc_grant(d);
		if (stalloc_drop(d, p, addr)) return true;
		stalloc_sync(d); /* no event is kept: the long way */
		b = range_block_at(r, at);
	}
	if (b == 0) return false; /* it may live on: the place stays as it is */
	if (p) p->word &= ~(uint64_t)(PLACE_LIVE | PLACE_INDEXED);
	uint64_t n = r->blocks[b].size, less = r->blocks[b].less;
	stalloc_count_out(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)(n * STALLOC_GRAIN - less));
	stalloc_observe(d, at, n, r->spaces[r->blocks[b].space].heap, STALLOC_EV_FREE);
	range_free(r, b);
	stalloc_grant(d); /* or the next request would be no quick hit either */
	return true;
}

/* The same of a block of a tape that was a quick hit; false: it is none. */
static inline bool stalloc_give(struct stalloc_device *d, struct stalloc_stream *st, uint64_t addr, uint64_t size) {
	uint64_t offset = addr - d->range.base;
	uint64_t at = offset >> STALLOC_GRAIN_BITS | offset << (64 - STALLOC_GRAIN_BITS); /* a place only where a block may begin */
	struct stalloc_place *p = tape_find(&st->tapes[size <= d->range.small_limit * STALLOC_GRAIN], at);
	return __builtin_expect(p != NULL, 1) && stalloc_drop(d, p, addr);
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
		if (stalloc_give_slowly(d, NULL, n->addr)) n->addr = 0;
		if (!(next = n->next)) n->next = STALLOC_RELAXED(d->undone);
	}
	if (first) STALLOC_PUT(d->undone, first);
}

/* Does what other threads announced. */
static inline void stalloc_drain(struct stalloc_device *d) {
	if (__builtin_expect(STALLOC_RELAXED(d->announced) != NULL, 0)) stalloc_perform(d);
}

#endif
