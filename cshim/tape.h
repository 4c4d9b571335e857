/* What a stream's next requests will be, and where each is wished (stream/wish).
 *
 * A hit is served without the range, which hears of the block when it needs to: before Go
 * has the lock, and where another request is looked up in it. So that no two live blocks
 * share a byte nevertheless, an entry is verified: at the space's present version all of
 * its bytes were free once. The version rises with every take of bytes in the space by
 * anything but a hit, and when a part of the list was not served in its order. As long as
 * it has not, only blocks of this tape can lie there, and of those only the entry's
 * frontier: whoever had some of the bytes before was gone when one of these was put there.
 * The caller holds the device's lock. */
#ifndef STALLOC_TAPE_H
#define STALLOC_TAPE_H

#include "counts.h"
#include "reel.h"

/* Has the range know the blocks of a tape. */
static __attribute__((noinline, unused)) void tape_tell(struct stalloc_range *r, struct stalloc_tape *t) {
	struct stalloc_reel *l = t->reel;
	struct range_space *s = &r->spaces[t->space];
	for (uint32_t i = 0; i < l->dirty_n; i++) {
		struct stalloc_place *p = &l->places[l->dirty[i]];
		p->word &= ~(uint64_t)PLACE_DIRTY;
		if ((p->word & (PLACE_LIVE | PLACE_INDEXED)) != PLACE_LIVE) continue;
		uint64_t n = p->info >> 24;
		uint32_t g = gap_holding(r, s, place_at(p), n);
		if (g == 0) { /* an equation does not hold */
			r->broken = 1;
			r->until = 0;
			break;
		}
		range_enter(r, s, g, place_at(p), n, place_less(p));
		p->word |= PLACE_INDEXED;
		if ((s->load += (int64_t)n) > s->peak) s->peak = s->load;
	}
	l->dirty_n = 0;
}

/* Has the range know the blocks of a tape, and the state how far it got. */
static inline void tape_settle(struct stalloc_device *d, struct stalloc_tape *t) {
	if (t->armed != 0) {
		struct stalloc_slot *first = &t->reel->slots[t->cursor];
		uint32_t hits = (uint32_t)(t->slot - first);
		uint64_t units = 0;
		for (uint32_t i = 0; i < hits; i++) units += entry_size(first[i].entry);
		d->counts.requests += hits;
		d->counts.allocated_total += units * STALLOC_GRAIN;
		d->range.now.wished += hits;
		t->armed = 0;
		t->cursor = t->state.cursor += hits;
		t->matched = t->state.matched += hits;
		t->hits = t->state.hits += hits;
	}
	if (t->reel && t->reel->dirty_n != 0) tape_tell(&d->range, t);
}

/* Has the range and the states know everything: before Go has the lock. */
static inline void stalloc_sync(struct stalloc_device *d) {
	stalloc_fold(d);
	for (struct stalloc_stream *s = atomic_load_explicit(&d->streams, memory_order_acquire); s; s = s->next)
		for (int i = 0; i < STALLOC_FORESEEN; i++) tape_settle(d, &s->tapes[i]);
}

/* Begins a reel in place of another, behind stalloc_sync. Either may have been played before and
 * may be again:
 *
 * - The range knows all blocks of both, and no place is dirty. What else a place says can be old,
 *   in one way: LIVE, because only this tape would have been told of the free. Such an entry is
 *   looked up in the range, and tape_serve forgets what is over. A free is the range's to perform,
 *   by where the block begins, whoever put it there.
 * - The versions of the slots are those of when the reel was played. Others' blocks have come
 *   since, hits of another reel too, of which the space's version tells nothing. It therefore
 *   rises at the next look, as behind a jump, above that of any slot. */
static inline void stalloc_tape_play(struct stalloc_tape *t, struct stalloc_reel *r) {
	t->reel = r;
	t->cursor = 0;
	t->matched = UINT64_MAX; /* a jump, wherever Go goes on */
}

/* One more entry, which was not a quick hit, is served. */
static inline void tape_step(struct stalloc_tape *t, bool hit) {
	t->cursor = ++t->state.cursor;
	t->matched = ++t->state.matched;
	t->state.strays = 0;
	t->hits = t->state.hits += hit;
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
		t->reel->places[slot->place].word |= PLACE_LIVE | PLACE_INDEXED;
		slot->version = s->version = t->version;
	} else if (!in_order && !begun) {
		s->version++;
	}
	t->version = s->version;
	t->cursor = now->cursor;
	t->matched = now->matched;
	t->hits = now->hits;
}

/* Forgets a block that the range has freed. */
static inline void tape_forget(const struct stalloc_range *r, struct stalloc_place *p) {
	if (p->word & PLACE_INDEXED && start_get(r, place_at(p)) == 0) p->word &= ~(uint64_t)(PLACE_LIVE | PLACE_INDEXED);
}

/* Whether the block of a place, if there is one, has bytes from one unit on, where it begins
 * no later. */
static inline bool place_reaches(const struct stalloc_range *r, struct stalloc_place *p, uint64_t from) {
	tape_forget(r, p);
	if (!(p->word & PLACE_LIVE)) return false;
	uint64_t n = p->word & PLACE_INDEXED ? r->blocks[start_get(r, place_at(p))].size : p->info >> 24;
	return place_at(p) + n > from;
}

/* Whether one of the live blocks of a slot's frontier, or its own, is in its way: a place has
 * blocks of several sizes in turn. */
static __attribute__((noinline, unused)) bool tape_overlaps(const struct stalloc_range *r, const struct stalloc_reel *l, const struct stalloc_slot *slot) {
	uint64_t at = entry_place(slot->entry);
	if (place_reaches(r, &l->places[slot->place], at)) return true;
	for (uint32_t i = slot[0].frontier; i < slot[1].frontier; i++)
		if (place_reaches(r, &l->places[l->frontier[i]], at)) return true;
	return false;
}

/* The same, quickly where no place of them has a live block. */
static inline bool tape_blocked(const struct stalloc_range *r, const struct stalloc_reel *l, const struct stalloc_slot *slot) {
	uint64_t word = l->places[slot->place].word;
	for (const uint32_t *f = l->frontier + slot[0].frontier, *end = l->frontier + slot[1].frontier; f < end; f++)
		word |= l->places[*f].word;
	return __builtin_expect(word & PLACE_LIVE, 0) && tape_overlaps(r, l, slot);
}

/* A hit of an armed tape: the place of its block, in bytes from the base; 0: it is none, or
 * more is to be done than this. No entry is for zero units. */
static inline __attribute__((always_inline)) uint64_t stalloc_hit(struct stalloc_device *d, struct stalloc_tape *t, uint64_t n, uint64_t asked) {
	struct stalloc_allowance *may = &d->allowance;
	struct stalloc_reel *l = t->reel;
	uint64_t version = t->armed;
	if (__builtin_expect(version == 0, 0)) return 0;
	struct stalloc_slot *slot = t->slot;
	uint64_t e = slot->entry;
	if (__builtin_expect(entry_size(e) != n || slot->version != version, 0)) return 0;
	if (__builtin_expect(tape_blocked(&d->range, l, slot), 0)) return 0;
	int64_t blocks = may->blocks.left - 1, units = may->units.left - (int64_t)n, all = may->asked.left - (int64_t)asked;
	struct stalloc_event *event = d->log.next;
	if (__builtin_expect((blocks | units | all) < 0 || event >= d->last, 0)) return 0;
	may->blocks.left = blocks;
	may->units.left = units;
	may->asked.left = all;
	t->slot = slot + 1;
	uint64_t info = n << 24 | t->info, where = e << RANGE_NUMBER_BITS, at = where >> (RANGE_NUMBER_BITS - STALLOC_GRAIN_BITS);
	struct stalloc_place *p = &l->places[slot->place];
	uint64_t word = p->word;
	p->word = where | (n * STALLOC_GRAIN - asked) | PLACE_DIRTY | PLACE_LIVE;
	p->info = info;
	if (__builtin_expect((word & PLACE_DIRTY) == 0, 0)) l->dirty[l->dirty_n++] = slot->place;
	*event = (struct stalloc_event){d->range.base + at, info};
	d->log.next = event + 1;
	return at;
}

/* The live place of a tape at which a block begins; NULL: none. */
static inline struct stalloc_place *tape_find(const struct stalloc_tape *t, uint64_t at) {
	const struct stalloc_reel *l = t->reel;
	struct stalloc_place *p = l ? &l->places[reel_find(l, at)] : NULL;
	return p && p->word & PLACE_LIVE ? p : NULL;
}

/* Frees a block that the range does not know. False: it must be asked whether. */
static inline bool stalloc_drop(struct stalloc_device *d, struct stalloc_place *p, uint64_t addr) {
	struct stalloc_allowance *may = &d->allowance;
	struct stalloc_event *event = d->log.next;
	if (__builtin_expect(p->word & PLACE_INDEXED || event >= d->last, 0)) return false;
	int64_t n = (int64_t)(p->info >> 24);
	may->blocks.left++;
	may->units.left += n;
	may->asked.left += n * STALLOC_GRAIN - (int64_t)place_less(p);
	p->word &= ~(uint64_t)PLACE_LIVE;
	*event = (struct stalloc_event){addr, p->info + (STALLOC_EV_FREE - STALLOC_EV_HIT)};
	d->log.next = event + 1;
	return true;
}

#endif
