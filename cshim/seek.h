/* Where a tape goes on with a request that is not under its cursor: wish.Tape's seek. */
#ifndef STALLOC_SEEK_H
#define STALLOC_SEEK_H

#include "reel.h"

#define SEEK_WINDOW 512 /* wish.Window */
#define SEEK_KEPT 4	/* wish.lastKept */

/* Whether the n entries before one are the last n requests. */
static inline bool tape_follows(const struct stalloc_tape *t, int64_t at, uint32_t n) {
	const struct stalloc_tape_state *s = &t->state;
	for (uint32_t i = 0; i < n && i < SEEK_KEPT; i++) {
		int64_t before = (int64_t)s->cursor - 1 - ((int64_t)i - (int64_t)s->strays), other = at - 1 - (int64_t)i;
		if (other < 0 || (i >= s->strays && before < 0)) return false;
		uint64_t size = i < s->strays ? s->last[i] : entry_size(t->reel->slots[before].entry);
		if (entry_size(t->reel->slots[other].entry) != size) return false;
	}
	return true;
}

/* The entry of a request of n units; -1: it is not expected here. */
static inline int64_t tape_seek(const struct stalloc_tape *t, uint64_t n) {
	const struct stalloc_slot *slots = t->reel->slots;
	const int64_t all = t->reel->n, cursor = t->state.cursor, next = cursor + 1;
	if (cursor < all && entry_size(slots[cursor].entry) == n) return cursor;
	if (t->state.strays == 0) return -1;
	if (next < all && entry_size(slots[next].entry) == n) return next;
	for (int64_t at = next; at < all && at < cursor + SEEK_WINDOW; at++)
		if (entry_size(slots[at].entry) == n && tape_follows(t, at, 1 + (64 - (uint32_t)__builtin_clzll((uint64_t)(at - cursor))) / 3)) return at;
	for (int64_t at = (cursor < all ? cursor : all) - 1; at >= 0 && at >= cursor - SEEK_WINDOW; at--)
		if (entry_size(slots[at].entry) == n && tape_follows(t, at, SEEK_KEPT)) return at;
	return -1;
}

/* A request that is not expected was served. */
static inline void tape_stray(struct stalloc_tape *t, uint64_t n) {
	struct stalloc_tape_state *s = &t->state;
	for (int i = SEEK_KEPT - 1; i > 0; i--) s->last[i] = s->last[i - 1];
	s->last[0] = n;
	s->strays += s->strays < SEEK_KEPT;
	s->missed++;
}

#endif
