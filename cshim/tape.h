/* The quick cases of a tape: a request that matches, a free. Go's stream.Tape
 * does the same (serve.go) and everything else; a differential test holds the
 * two together. The caller holds the stream's lock. */
#ifndef STALLOC_TAPE_H
#define STALLOC_TAPE_H

#include <stdlib.h>

#include "shared.h"

static inline void stalloc_skip_freed(struct stalloc_tape *t) {
	for (;;) {
		const struct stalloc_entry *e = &t->entries[t->state.cursor];
		if (e->size != 0 || e->slot == STALLOC_NONE || t->live[e->place].slot == e->slot + 1) return;
		t->state.cursor++;
	}
}

/* Whether an entry is for a request of so many rounded bytes: of one size, or of a
 * range, see Go's stream/range.go. */
static inline bool stalloc_takes(const struct stalloc_entry *e, uint64_t rounded) {
	if (__builtin_expect(e->size == rounded, 1)) return true;
	if (e->size >> 63 == 0 || (e->size & 1) != 0) return false;
	uint64_t least = e->size >> 32 & INT32_MAX, most = e->size >> 1 & INT32_MAX;
	return rounded / STALLOC_GRAIN - least <= most - least;
}

/* What stalloc_take returns instead of an address. */
#define STALLOC_GO_DECIDES 0
#define STALLOC_THE_POOLS 1

/* The address of the slot under the cursor if it is this request's and the
 * guard is trivially clear. */
static inline uint64_t stalloc_take(struct stalloc_tape *t, uint64_t rounded, uint64_t asked) {
	const struct stalloc_entry *e = &t->entries[t->state.cursor];
	if (!stalloc_takes(e, rounded) || (t->state.owed | t->state.partial | t->state.off) != 0) return STALLOC_GO_DECIDES;
	if (__builtin_expect((e->offset & STALLOC_POOL) != 0, 0)) {
		t->state.cursor++;
		t->state.misses++;
		stalloc_skip_freed(t);
		return STALLOC_THE_POOLS;
	}
	struct stalloc_live *l = &t->live[e->place];
	uint32_t persists = e->offset & STALLOC_PERSISTS;
	l->slot = e->slot + 1;
	l->flags = persists ? STALLOC_LIVE_PERSISTS : 0;
	l->asked = asked;
	t->state.live++;
	t->state.persist += persists;
	t->state.hits++;
	t->state.cursor++;
	uint64_t address = t->state.base + (e->offset & ~(uint64_t)STALLOC_PERSISTS);
	stalloc_skip_freed(t);
	return address;
}

/* The place at an offset of the arena, or STALLOC_NONE. */
static inline uint32_t stalloc_place(const struct stalloc_tape *t, uint64_t offset) {
	if (offset % STALLOC_GRAIN != 0) return STALLOC_NONE;
	uint64_t key = offset / STALLOC_GRAIN + 1, cell;
	for (uint64_t at = (key * 0x9E3779B97F4A7C15u >> 32) & t->index_mask; (cell = t->index[at]) != 0;
		 at = (at + 1) & t->index_mask)
		if (cell >> 32 == key) return (uint32_t)cell;
	return STALLOC_NONE;
}

/* Ends the life of the live slot at a place. */
static inline void stalloc_release(struct stalloc_tape *t, uint32_t place) {
	struct stalloc_live *l = &t->live[place];
	uint32_t flags = l->flags;
	t->state.log[t->state.freed++ % STALLOC_LOG] = (struct stalloc_freeing){l->slot - 1, t->state.cursor};
	l->slot = 0;
	l->flags = 0;
	t->state.live--;
	t->state.persist -= (flags & STALLOC_LIVE_PERSISTS) != 0;
	if ((flags & STALLOC_OWED) == 0) {
		stalloc_skip_freed(t);
		return;
	}
	for (uint32_t i = 0; i < t->state.owed; i++)
		if (t->state.owed_at[i] == place) {
			t->state.owed_at[i] = t->state.owed_at[--t->state.owed];
			return;
		}
}

static inline void stalloc_push(struct stalloc_stream *s, uint64_t addr, uint64_t rounded, uint32_t kind) {
	struct stalloc_observed *o = &s->observed;
	if (!s->recording) return;
	if (__builtin_expect(o->count == STALLOC_MOST_EVENTS, 0)) {
		o->lost++;
		return;
	}
	struct stalloc_event *e = &o->events[o->count++];
	e->addr = addr;
	e->info = rounded << 8 | kind;
}

static inline void stalloc_raise(_Atomic int64_t *peak, int64_t value) {
	int64_t old = STALLOC_RELAXED(*peak);
	while (old < value && !atomic_compare_exchange_weak_explicit(peak, &old, value, memory_order_relaxed,
																 memory_order_relaxed)) {
	}
}

/* Bytes and blocks that a device's load stands for. */
static inline int64_t stalloc_load_bytes(int64_t load) { return (load >> STALLOC_LOAD_COUNT) * STALLOC_GRAIN; }
static inline int64_t stalloc_load_blocks(int64_t load) { return load & (((int64_t)1 << STALLOC_LOAD_COUNT) - 1); }

static inline int64_t stalloc_add(const struct stalloc_device *d, _Atomic int64_t *counter, int64_t n) {
	if (STALLOC_RELAXED(d->many) != 0) return atomic_fetch_add_explicit(counter, n, memory_order_relaxed) + n;
	int64_t now = STALLOC_RELAXED(*counter) + n;
	STALLOC_PUT(*counter, now);
	return now;
}

/* Counts a block in (sign 1) or out (-1) of the device. */
static inline void stalloc_count(struct stalloc_device *d, int64_t rounded, int64_t asked, int sign) {
	int64_t block = (rounded / STALLOC_GRAIN << STALLOC_LOAD_COUNT) + 1;
	int64_t load = stalloc_add(d, &d->load, sign * block);
	if (rounded != asked) stalloc_add(d, &d->slack, sign * (rounded - asked));
	if (sign < 0) return;
	int64_t allocated = stalloc_load_bytes(load), blocks = stalloc_load_blocks(load);
	int64_t requested = allocated - STALLOC_RELAXED(d->slack), active = allocated + STALLOC_RELAXED(d->pending);
	if (allocated > STALLOC_RELAXED(d->peak_allocated)) stalloc_raise(&d->peak_allocated, allocated);
	if (requested > STALLOC_RELAXED(d->peak_requested)) stalloc_raise(&d->peak_requested, requested);
	if (blocks > STALLOC_RELAXED(d->peak_live)) stalloc_raise(&d->peak_live, blocks);
	if (active > STALLOC_RELAXED(d->peak_active)) stalloc_raise(&d->peak_active, active);
}

static inline uint64_t stalloc_round(uint64_t size) {
	uint64_t n = (size + STALLOC_GRAIN - 1) & ~(uint64_t)(STALLOC_GRAIN - 1);
	return n ? n : STALLOC_GRAIN;
}

static inline void stalloc_count_in(struct stalloc_stream *s, uint64_t addr, uint64_t asked, uint32_t kind) {
	uint64_t rounded = stalloc_round(asked);
	s->allocations++;
	s->allocated_total += rounded;
	stalloc_count(s->device, (int64_t)rounded, (int64_t)asked, 1);
	stalloc_push(s, addr, rounded, kind);
}

static inline void stalloc_count_out(struct stalloc_stream *s, uint64_t rounded, uint64_t asked) {
	s->frees++;
	s->freed_total += rounded;
	stalloc_count(s->device, (int64_t)rounded, (int64_t)asked, -1);
}

/* Frees the live slot at a place. A pinned slot stays live, cannot be freed again, and
 * is left to the caller: true. */
static inline bool stalloc_free_place(struct stalloc_tape *t, uint32_t place) {
	uint64_t asked = t->live[place].asked, rounded = stalloc_round(asked);
	bool pinned = t->live[place].flags & STALLOC_PINNED;
	stalloc_count_out(t->stream, rounded, asked);
	stalloc_push(t->stream, t->state.base + t->offsets[place], rounded, STALLOC_EV_FREE);
	if (pinned)
		t->live[place].flags |= STALLOC_FREED;
	else
		stalloc_release(t, place);
	return pinned;
}

/* The place of the live slot at an address, and its tape; STALLOC_NONE: there is none
 * that a free could mean. A place is found by the whole address: no other tape's can be. */
static inline uint32_t stalloc_slot_at(const struct stalloc_stream *s, uint64_t addr, struct stalloc_tape **tape) {
	struct stalloc_tape *t = s->tape;
	uint32_t place = t ? stalloc_place(t, addr - t->state.base) : STALLOC_NONE;
	if (__builtin_expect(place == STALLOC_NONE, 0))
		for (t = s->tapes; t && (place = stalloc_place(t, addr - t->state.base)) == STALLOC_NONE;) t = t->next;
	*tape = t;
	if (place == STALLOC_NONE || t->live[place].slot == 0 || (t->live[place].flags & STALLOC_FREED) != 0)
		return STALLOC_NONE;
	return place;
}

/* Announces a free without the lock. False: the host has no memory left. */
static inline bool stalloc_announce(struct stalloc_stream *s, uint64_t addr) {
	struct stalloc_announced *n = malloc(sizeof *n), *head = STALLOC_RELAXED(s->announced);
	if (!n) return false;
	n->addr = addr;
	do {
		n->next = head;
	} while (!atomic_compare_exchange_weak(&s->announced, &head, n));
	return true;
}

static __attribute__((noinline, unused)) void stalloc_perform(struct stalloc_stream *s) {
	struct stalloc_announced *n = atomic_exchange_explicit(&s->announced, NULL, memory_order_acquire), *next;
	for (; n; n = next) {
		struct stalloc_tape *t;
		uint32_t place = stalloc_slot_at(s, n->addr, &t);
		if (place != STALLOC_NONE && (t->live[place].flags & STALLOC_PINNED) == 0) {
			stalloc_free_place(t, place);
			n->addr = 0;
		}
		next = n->next;
		n->next = STALLOC_RELAXED(s->left);
		STALLOC_PUT(s->left, n);
	}
}

/* Performs the frees that other threads announced. */
static inline void stalloc_drain(struct stalloc_stream *s) {
	if (__builtin_expect(STALLOC_RELAXED(s->announced) != NULL, 0)) stalloc_perform(s);
}

#endif
