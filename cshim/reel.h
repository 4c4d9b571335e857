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

static inline int reel_by_value(const void *a, const void *b) {
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* All places where a block of a reel begins or ends, in order; returns how many. */
static inline uint32_t reel_ends(const struct stalloc_reel *r, uint64_t *end) {
	uint32_t all = 0, n = 0;
	for (uint32_t e = 0; e < r->n; e++) {
		uint64_t at = entry_place(r->slots[e].entry);
		if (at == 0) continue;
		end[all++] = at;
		end[all++] = at + entry_size(r->slots[e].entry);
	}
	qsort(end, all, sizeof *end, reel_by_value);
	for (uint32_t i = 0; i < all; i++)
		if (n == 0 || end[n - 1] != end[i]) end[n++] = end[i];
	return n;
}

/* The stretch between two of them that begins with one. */
static inline uint32_t reel_stretch(const uint64_t *ends, uint32_t n, uint64_t end) {
	uint32_t lo = 0, hi = n;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (ends[mid] < end)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* Adds a place to the frontier behind so many. */
static inline bool reel_note(struct stalloc_reel *r, uint32_t used, uint32_t place) {
	if ((used & (used - 1)) == 0) { /* full: the room doubles */
		uint32_t *more = realloc(r->frontier, (used ? 2 * (size_t)used : 1) * sizeof *more);
		if (!more) return false;
		r->frontier = more;
	}
	r->frontier[used] = place;
	return true;
}

/* Every entry's frontier: who was the last, in the cyclic order of the list, to have some
 * of its bytes, but for its own place. */
static inline bool reel_frontiers(struct stalloc_reel *r) {
	uint64_t *end = malloc((2 * (size_t)r->n + 1) * sizeof *end);
	uint32_t *owner = malloc((2 * (size_t)r->n + 1) * sizeof *owner); /* of the stretch that begins at an end: a place, or none */
	uint32_t *mark = malloc(sizeof *mark << (64 - r->shift));	  /* of a place: the last entry whose frontier it is in */
	bool done = end && owner && mark;
	uint32_t n = done ? reel_ends(r, end) : 0, used = 0;
	if (done) memset(owner, 0xff, sizeof *owner * n);
	if (done) memset(mark, 0xff, sizeof *mark << (64 - r->shift));
	for (uint32_t i = 0; i < 2 * r->n && done; i++) {
		bool again = i >= r->n; /* in the first round it is not known yet who was there before */
		struct stalloc_slot *slot = &r->slots[i % r->n];
		uint64_t at = entry_place(slot->entry);
		slot->frontier = used;
		if (at == 0) continue;
		uint32_t to = reel_stretch(end, n, at + entry_size(slot->entry));
		for (uint32_t s = reel_stretch(end, n, at); s < to && done; s++) {
			uint32_t had = owner[s];
			owner[s] = slot->place;
			if (!again || had == REEL_NONE || had == slot->place || mark[had] == i) continue;
			mark[had] = i;
			done = reel_note(r, used++, had);
		}
	}
	r->slots[r->n].frontier = used;
	free(end);
	free(owner);
	free(mark);
	return done;
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
	if (!r) return NULL;
	r->n = n;
	r->slots = calloc(n + 1, sizeof *r->slots);
	for (uint32_t e = 0; e < n && r->slots; e++) r->slots[e] = (struct stalloc_slot){.entry = entries[e], .version = UINT64_MAX};
	if (r->slots && foreseen) return r;
	r->dirty = calloc(n + 1, sizeof *r->dirty);
	bool done = r->slots && r->dirty;
	if (done) done = reel_places(r, &n) && reel_places(r, &n); /* most have several blocks: less to be cached */
	if (done) done = reel_frontiers(r);
	if (done) return r;
	stalloc_reel_free(r);
	return NULL;
}

#endif
