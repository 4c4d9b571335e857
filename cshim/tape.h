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

static __attribute__((noinline, unused)) void stalloc_lose(struct stalloc_log *l) {
	l->lost += l->recording;
	l->lost_ever += l->recording;
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
	l->recording = recording && l->events;
	l->next = l->events;
	l->end = l->recording ? l->events + STALLOC_MOST_EVENTS : l->events;
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
	int64_t bytes = (d->granted.units - d->left.units) * STALLOC_GRAIN, blocks = d->granted.blocks - d->left.blocks;
	__atomic_store_n(&c->allocated, c->allocated + bytes, __ATOMIC_RELAXED);
	c->requested += d->granted.asked - d->left.asked;
	c->blocks += blocks;
	now->load += bytes;
	now->blocks += blocks;
	now->clock += (uint64_t)(d->granted.events - d->left.events);
}

/* Adds what quick hits and frees have changed to the counts; there are none until the next
 * stalloc_grant. */
static inline void stalloc_fold(struct stalloc_device *d) {
	if (d->granted.events != d->left.events) stalloc_add(d);
	d->granted = d->left = (struct stalloc_allowance){0};
}

static inline int64_t stalloc_least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Allows quick hits and frees as far as the engine does, there is room and no peak is
 * passed. Folded. */
static inline void stalloc_grant(struct stalloc_device *d) {
	const struct range_counters *now = &d->range.now;
	const struct stalloc_counts *c = &d->counts;
	int64_t room = stalloc_least(d->range.block_most - now->blocks, d->log.end - d->log.next);
	uint64_t open = d->range.until - now->clock;
	int64_t bytes = stalloc_least(stalloc_least(now->peak_load - now->load, now->peak_held - now->load - now->pending),
				      stalloc_least(c->peak_allocated - c->allocated, c->peak_active - c->allocated - now->pending));
	d->granted = d->left = (struct stalloc_allowance){
		.events = open < (uint64_t)room ? (int64_t)open : room,
		.blocks = c->peak_blocks - c->blocks,
		.units = bytes / (int64_t)STALLOC_GRAIN,
		.asked = c->peak_requested - c->requested,
	};
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
	struct range_space *s = &r->spaces[t->space];
	for (uint32_t i = 0; i < l->dirty_n; i++) {
		struct stalloc_place *p = &l->places[l->dirty[i]];
		p->dirty = false;
		if (p->entry == 0 || p->indexed) continue;
		uint64_t at = entry_place(l->entries[p->entry - 1]), n = p->info >> 24;
		uint32_t g = gap_holding(r, s, at, n);
		if (g == 0) { /* an equation does not hold */
			r->broken = 1;
			r->until = 0;
			break;
		}
		range_enter(r, s, g, at, n, p->less);
		p->indexed = true;
		if ((s->load += (int64_t)n) > s->peak) s->peak = s->load;
	}
	l->dirty_n = 0;
}

/* Has the range know the blocks of a tape, and the state how far it got. */
static inline void tape_settle(struct stalloc_device *d, struct stalloc_tape *t) {
	if (t->armed != 0) {
		uint32_t hits = t->state.cursor - t->cursor;
		uint64_t units = 0;
		for (uint32_t i = t->cursor; i < t->state.cursor; i++) units += entry_size(t->reel->entries[i]);
		d->counts.requests += hits;
		d->counts.allocated_total += units * STALLOC_GRAIN;
		d->range.now.wished += hits;
		t->armed = 0;
		t->cursor = t->state.cursor;
		t->matched = t->state.matched += hits;
		t->hits = t->state.hits += hits;
	}
	if (t->reel && t->reel->dirty_n != 0) tape_tell(&d->range, t);
}

/* Has the range and the states know everything: before Go has the lock. */
static inline void stalloc_sync(struct stalloc_device *d) {
	stalloc_fold(d);
	for (struct stalloc_tape *t = d->armed; t; t = t->next) {
		tape_settle(d, t);
		t->listed = false;
	}
	d->armed = NULL;
}

/* Begins a list in place of another, behind stalloc_sync. */
static inline void stalloc_tape_play(struct stalloc_tape *t, struct stalloc_reel *r) {
	stalloc_reel_free(t->reel);
	t->reel = r;
	t->cursor = 0;
}

/* One more entry, which was not a quick hit, is served. */
static inline void tape_step(struct stalloc_tape *t, bool hit) {
	t->cursor = ++t->state.cursor;
	t->matched = ++t->state.matched;
	t->state.strays = 0;
	t->hits = t->state.hits += hit;
	t->state.misses += !hit;
}

/* Looks at what Go has done since. */
static inline void tape_look(struct range_space *s, struct stalloc_tape *t) {
	const struct stalloc_tape_state *now = &t->state;
	bool in_order = now->cursor == t->cursor && now->matched == t->matched;
	bool begun = now->cursor == 0 && now->matched == 0 && t->cursor == t->reel->n;
	struct stalloc_slot *slot = &t->reel->slots[t->cursor];
	if (now->cursor == t->cursor + 1 && now->matched == t->matched + 1 && now->hits == t->hits + 1 && s->version == t->version + 1 &&
	    slot->place != REEL_NONE) {
		/* It has served a hit, and nothing else; where the entry has no place, it was a
		 * forecast's. */
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

/* Serves the entry under the cursor, which is for this request, by a look at the range.
 * False: its bytes are not free, and nothing has changed. Settled. */
static inline bool tape_ask(struct stalloc_range *r, struct range_space *s, struct stalloc_tape *t, uint64_t less) {
	struct stalloc_reel *l = t->reel;
	struct stalloc_slot *slot = &l->slots[t->state.cursor];
	uint64_t e = l->entries[t->state.cursor];
	uint32_t g = range_room(r) ? gap_holding(r, s, entry_place(e), entry_size(e)) : 0;
	if (g == 0) return false;
	for (uint32_t i = slot[0].frontier; i < slot[1].frontier; i++) tape_forget(r, l, &l->places[l->frontier[i]]);
	range_enter(r, s, g, entry_place(e), entry_size(e), less);
	range_count_in(r, s, entry_size(e));
	r->now.wished++;
	struct stalloc_place *p = &l->places[slot->place];
	p->entry = t->state.cursor + 1;
	p->indexed = true;
	slot->version = t->version;
	tape_step(t, true);
	return true;
}

/* A hit of an armed tape: the place of its block, in bytes from the base; 0: it is none, or
 * more is to be done than this. */
static inline __attribute__((always_inline)) uint64_t stalloc_hit(struct stalloc_device *d, struct stalloc_tape *t, uint64_t n, uint64_t asked) {
	struct stalloc_allowance *left = &d->left;
	struct stalloc_reel *l = t->reel;
	uint64_t version = t->armed;
	if (__builtin_expect(version == 0, 0)) return 0;
	uint32_t cursor = t->state.cursor;
	struct stalloc_slot *slot = &l->slots[cursor];
	uint64_t e = slot->entry;
	if (__builtin_expect(entry_size(e) != n || slot->version != version, 0)) return 0;
	if (__builtin_expect(tape_blocked(l, slot), 0)) return 0;
	int64_t events = left->events - 1, blocks = left->blocks - 1, units = left->units - (int64_t)n, all = left->asked - (int64_t)asked;
	if (__builtin_expect((events | blocks | units | all) < 0, 0)) return 0;
	struct stalloc_place *p = &l->places[slot->place];
	struct stalloc_event *event = d->log.next;
	left->events = events;
	left->blocks = blocks;
	left->asked = all;
	__atomic_store_n(&left->units, units, __ATOMIC_RELAXED); /* read without the lock */
	t->state.cursor = ++cursor;
	uint64_t info = n << 24 | t->info, at = entry_place(e) * STALLOC_GRAIN;
	p->entry = cursor;
	p->info = info;
	p->less = (uint16_t)(n * STALLOC_GRAIN - asked);
	if (!p->dirty) {
		p->dirty = true;
		l->dirty[l->dirty_n++] = slot->place;
	}
	*event = (struct stalloc_event){d->range.base + at, info | STALLOC_EV_HIT};
	d->log.next = event + 1;
	return at;
}

/* Serves the entry under the cursor where it is wished. False: that is not free. */
static inline bool tape_serve(struct stalloc_device *d, struct range_space *s, struct stalloc_tape *t, uint64_t n, uint64_t asked, uint32_t heap) {
	uint64_t at = entry_place(t->reel->entries[t->state.cursor]);
	struct stalloc_slot *slot = &t->reel->slots[t->state.cursor];
	tape_look(s, t);
	if (slot->version == t->version && !tape_blocked(t->reel, slot)) {
		t->armed = t->version;
		t->info = stalloc_info(0, heap);
		t->state.strays = 0;
		if (!t->listed) {
			t->listed = true;
			t->next = d->armed;
			d->armed = t;
		}
		stalloc_grant(d);
		if (stalloc_hit(d, t, n, asked) != 0) return true;
		tape_settle(d, t); /* a new peak, or no event is kept: the long way */
		stalloc_fold(d);
	}
	if (!tape_ask(&d->range, s, t, n * STALLOC_GRAIN - asked)) return false;
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, heap, STALLOC_EV_HIT);
	return true;
}

/* The address of a block for a request; 0: Go must serve it, and nothing has changed. */
static __attribute__((noinline, unused)) uint64_t stalloc_serve(struct stalloc_device *d, struct stalloc_stream *st, uint64_t asked) {
	struct stalloc_range *r = &d->range;
	uint64_t n = stalloc_units_of(asked), at = 0;
	stalloc_fold(d);
	if (!range_open(r)) return 0;
	if (__builtin_expect(st->heap == 0, 0) && (st->heap = range_heap_of(r, st->id)) == 0) return 0;
	bool small = n <= r->small_limit;
	struct stalloc_tape *t = &st->tapes[small];
	t->space = r->heaps[st->heap].spaces[small];
	struct range_space *s = &r->spaces[t->space];
	if (t->reel) {
		tape_settle(d, t);
		if (t->state.cursor >= t->reel->n || entry_size(t->reel->entries[t->state.cursor]) != n) return 0;
		/* Where it is not free, Go may have to ask the driver for fences, or for memory. */
		at = entry_place(t->reel->entries[t->state.cursor]);
		if (at != 0) return tape_serve(d, s, t, n, asked, st->heap) ? r->base + at * STALLOC_GRAIN : 0;
	}
	if (r->tape_only || n > r->most || (at = range_alloc(r, s, n, n * STALLOC_GRAIN - asked)) == 0) return 0;
	if (t->reel) tape_step(t, false);
	stalloc_count_in(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
	stalloc_observe(d, at, n, st->heap, STALLOC_EV_MISS);
	return r->base + at * STALLOC_GRAIN;
}

/* The live place of a tape at which a block begins; NULL: none. */
static inline struct stalloc_place *place_in(const struct stalloc_tape *t, uint64_t at) {
	const struct stalloc_reel *l = t->reel;
	uint32_t place = l ? reel_find(l, at) : REEL_NONE;
	return place != REEL_NONE && l->places[place].entry != 0 ? &l->places[place] : NULL;
}

/* Frees a block that the range does not know. False: it must be asked whether. */
static inline bool stalloc_drop(struct stalloc_device *d, struct stalloc_place *p, uint64_t addr) {
	struct stalloc_allowance *left = &d->left;
	struct stalloc_event *event = d->log.next;
	if (__builtin_expect(p->indexed || left->events <= 0, 0)) return false;
	int64_t n = (int64_t)(p->info >> 24);
	left->events--;
	left->blocks++;
	left->asked += n * STALLOC_GRAIN - p->less;
	__atomic_store_n(&left->units, left->units + n, __ATOMIC_RELAXED);
	p->entry = 0;
	*event = (struct stalloc_event){addr, p->info | STALLOC_EV_FREE};
	d->log.next = event + 1;
	return true;
}

/* Frees a block. The stream and the size only say where to look first. False: Go must, or
 * there is none; nothing has changed. */
static __attribute__((noinline, unused)) bool stalloc_give_slowly(struct stalloc_device *d, struct stalloc_stream *first, uint64_t addr) {
	struct stalloc_range *r = &d->range;
	uint64_t at = (addr - r->base) / STALLOC_GRAIN;
	struct stalloc_place *p = NULL;
	stalloc_fold(d);
	if (!range_open(r) || addr < r->base || addr % STALLOC_GRAIN != 0 || at >> RANGE_START_BITS != 0) return false;
	if (first && !(p = place_in(&first->tapes[0], at))) p = place_in(&first->tapes[1], at);
	uint32_t b = p && !p->indexed ? 0 : range_block_at(r, at);
	if (__builtin_expect(!p && b == 0, 0)) /* another stream's, or none */
		for (struct stalloc_stream *st = STALLOC_RELAXED(d->streams); st && !p; st = st->next)
			if (!(p = place_in(&st->tapes[0], at))) p = place_in(&st->tapes[1], at);
	if (p && !p->indexed) {
		stalloc_grant(d);
		if (stalloc_drop(d, p, addr)) return true;
		stalloc_sync(d); /* no event is kept: the long way */
		b = range_block_at(r, at);
	}
	if (b == 0) return false; /* it may live on: the place stays as it is */
	if (p) {
		p->entry = 0;
		p->indexed = false;
	}
	uint64_t n = r->blocks[b].size, less = r->blocks[b].less;
	stalloc_count_out(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)(n * STALLOC_GRAIN - less));
	stalloc_observe(d, at, n, r->spaces[r->blocks[b].space].heap, STALLOC_EV_FREE);
	range_free(r, b);
	return true;
}

/* The same of a block of a tape that was a quick hit; false: it is none. */
static inline bool stalloc_give(struct stalloc_device *d, struct stalloc_stream *st, uint64_t addr, uint64_t size) {
	uint64_t offset = addr - d->range.base;
	struct stalloc_place *p;
	if (__builtin_expect(offset >> (RANGE_START_BITS + 9) != 0 || offset % STALLOC_GRAIN != 0, 0)) return false;
	p = place_in(&st->tapes[size <= d->range.small_limit * STALLOC_GRAIN], offset / STALLOC_GRAIN);
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

static __attribute__((noinline, unused)) void stalloc_perform(struct stalloc_device *d) {
	struct stalloc_announced *n = atomic_exchange_explicit(&d->announced, NULL, memory_order_acquire), *next;
	for (; n; n = next) {
		if (stalloc_give_slowly(d, NULL, n->addr)) n->addr = 0;
		next = n->next;
		n->next = STALLOC_RELAXED(d->undone);
		STALLOC_PUT(d->undone, n);
	}
}

/* Does what other threads announced. */
static inline void stalloc_drain(struct stalloc_device *d) {
	if (__builtin_expect(STALLOC_RELAXED(d->announced) != NULL, 0)) stalloc_perform(d);
}

#endif
