/* What a tape plays, and what lets it serve a hit without a look at the range: for each
 * entry the places whose blocks may still lie where its own is wished. Reels are made
 * beside the program. */
#ifndef STALLOC_REEL_H
#define STALLOC_REEL_H

#include <stdlib.h>
#include <string.h>

#include "shared.h"

#define REEL_NONE UINT32_MAX

static inline uint64_t entry_size(uint64_t e) { return e >> STALLOC_PLACE_BITS; }
static inline uint64_t entry_place(uint64_t e) { return e & (((uint64_t)1 << STALLOC_PLACE_BITS) - 1); }

static inline uint64_t place_at(const struct stalloc_place *p) { return p->word >> RANGE_NUMBER_BITS; }
static inline uint64_t place_less(const struct stalloc_place *p) { return p->word & (STALLOC_GRAIN - 1); }

/* The cell of a place, or the empty one where it would be. */
static inline uint64_t reel_find(const struct stalloc_reel *r, uint64_t at) {
	uint64_t i = at * 0x9e3779b97f4a7c15u >> r->shift;
	while (__builtin_expect(place_at(&r->places[i]) != at && r->places[i].word != 0, 0)) i = (i + 1) & (~(uint64_t)0 >> r->shift);
	return i;
}

static inline void stalloc_reel_free(struct stalloc_reel *r) {
	if (!r) return;
	free(r->slots);
	free(r->frontier);
	free(r->places);
	free(r->dirty);
	free(r);
}

/* Who lies where, over the stretches between all ends of blocks, in order. */
struct reel_sweep {
	uint64_t *end;	     /* where a stretch begins; sorted */
	uint32_t n;
	uint32_t *owner;     /* of a stretch: a place, or none */
	uint32_t *mark;	     /* of a place: the last entry whose frontier it is in */
	uint32_t used, room; /* of the frontiers */
};

static inline int reel_by_value(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static inline uint32_t sweep_at(const struct reel_sweep *s, uint64_t end) {
	uint32_t lo = 0, hi = s->n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (s->end[mid] < end)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static inline bool reel_note(struct stalloc_reel *r, struct reel_sweep *s, uint32_t place) {
	if (s->used == s->room) {
		uint32_t room = s->room * 2 + 64;
		uint32_t *more = realloc(r->frontier, room * sizeof *more);
		if (!more) return false;
		r->frontier = more;
		s->room = room;
	}
	r->frontier[s->used++] = place;
	return true;
}

/* Puts the block of an entry where it is wished; with note, what was there is its
 * frontier, but for its own place. */
static inline bool sweep_put(struct stalloc_reel *r, struct reel_sweep *s, uint32_t e, bool note) {
	uint64_t at = entry_place(r->slots[e].entry);
	uint32_t place = r->slots[e].place, from = sweep_at(s, at), to = sweep_at(s, at + entry_size(r->slots[e].entry));
	for (uint32_t i = from; i < to; i++) {
		uint32_t owner = s->owner[i];
		s->owner[i] = place;
		if (!note || owner == REEL_NONE || owner == place || s->mark[owner] == e) continue;
		s->mark[owner] = e;
		if (!reel_note(r, s, owner)) return false;
	}
	return true;
}

/* Every entry's frontier: who was the last, in the cyclic order of the list, to have some
 * of its bytes. */
static inline bool reel_frontiers(struct stalloc_reel *r, struct reel_sweep *s) {
	if (!s->end || !s->owner || !s->mark) return false;
	for (uint32_t e = 0; e < r->n; e++) {
		uint64_t at = entry_place(r->slots[e].entry);
		if (at == 0) continue;
		s->end[s->n++] = at;
		s->end[s->n++] = at + entry_size(r->slots[e].entry);
	}
	qsort(s->end, s->n, sizeof *s->end, reel_by_value);
	uint32_t n = 0;
	for (uint32_t i = 0; i < s->n; i++)
		if (n == 0 || s->end[n - 1] != s->end[i]) s->end[n++] = s->end[i];
	s->n = n;
	memset(s->mark, 0xff, sizeof *s->mark << (64 - r->shift));
	memset(s->owner, 0xff, sizeof *s->owner * s->n);
	for (int round = 0; round < 2; round++)
		for (uint32_t e = 0; e < r->n; e++) {
			if (round > 0) r->slots[e].frontier = s->used;
			if (entry_place(r->slots[e].entry) != 0 && !sweep_put(r, s, e, round > 0)) return false;
		}
	r->slots[r->n].frontier = s->used;
	return true;
}

/* Makes the table of places, with room for so many, and says how many there are. */
static inline bool reel_places(struct stalloc_reel *r, uint32_t *count) {
	uint32_t bits = 4;
	while ((uint64_t)1 << bits < 2 * (uint64_t)*count) bits++;
	r->shift = 64 - bits;
	free(r->places);
	if (!(r->places = calloc((size_t)1 << bits, sizeof *r->places))) return false;
	*count = 0;
	for (uint32_t e = 0; e < r->n; e++) {
		uint64_t at = entry_place(r->slots[e].entry), i = at ? reel_find(r, at) : REEL_NONE;
		r->slots[e].place = (uint32_t)i;
		if (at == 0 || r->places[i].word != 0) continue;
		r->places[i].word = at << RANGE_NUMBER_BITS;
		++*count;
	}
	return true;
}

/* A reel of a list of entries; of a forecast, which is never armed, only that. NULL: the host has
 * no memory left. */
static inline struct stalloc_reel *stalloc_reel_new(const uint64_t *entries, uint32_t n, bool foreseen) {
	struct stalloc_reel *r = calloc(1, sizeof *r);
	struct reel_sweep s = {0};
	if (!r) return NULL;
	r->n = n;
	r->slots = calloc(n + 1, sizeof *r->slots);
	for (uint32_t e = 0; e < n && r->slots; e++) r->slots[e] = (struct stalloc_slot){.entry = entries[e], .version = UINT64_MAX};
	if (r->slots && foreseen) return r;
	r->dirty = calloc(n + 1, sizeof *r->dirty);
	s.end = malloc((2 * (size_t)n + 2) * sizeof *s.end);
	s.owner = malloc((2 * (size_t)n + 2) * sizeof *s.owner);
	bool done = r->slots && r->dirty;
	if (done) done = reel_places(r, &n) && reel_places(r, &n); /* most have several blocks: less to be cached */
	if (done) {
		s.mark = malloc(sizeof *s.mark << (64 - r->shift));
		done = reel_frontiers(r, &s);
	}
	free(s.end);
	free(s.owner);
	free(s.mark);
	if (done) return r;
	stalloc_reel_free(r);
	return NULL;
}

#endif
