/* Changes of the table by which frees find an arena's stream. */
#ifndef STALLOC_ARENAS_H
#define STALLOC_ARENAS_H

#include <stdlib.h>

#include "shared.h"

/* The part of the table behind this one, made if there is none yet. */
static inline struct stalloc_arenas *stalloc_more_arenas(struct stalloc_arenas *a) {
	struct stalloc_arenas *more = atomic_load_explicit(&a->more, memory_order_acquire), *fresh;
	if (more || !(fresh = calloc(1, sizeof *fresh))) return more;
	if (atomic_compare_exchange_strong(&a->more, &more, fresh)) return fresh;
	free(fresh);
	return more;
}

/* Enters an arena. NULL: the host has no memory left; then only the engine finds it. */
static inline struct stalloc_arena *stalloc_publish(struct stalloc_arenas *a, struct stalloc_stream *s, uint64_t base,
						    uint64_t size) {
	for (; a; a = stalloc_more_arenas(a))
		for (uint32_t i = 0; i < STALLOC_ARENAS; i++) {
			struct stalloc_arena *at = &a->at[i];
			struct stalloc_stream *none = NULL;
			if (!atomic_compare_exchange_strong(&at->stream, &none, s)) continue;
			STALLOC_PUT(at->base, base);
			atomic_store_explicit(&at->size, size, memory_order_release);
			uint32_t n = STALLOC_RELAXED(a->count);
			while (n <= i && !atomic_compare_exchange_weak(&a->count, &n, i + 1)) {
			}
			return at;
		}
	return NULL;
}

static inline void stalloc_unpublish(struct stalloc_arena *at) {
	if (!at) return;
	STALLOC_PUT(at->size, 0);
	atomic_store_explicit(&at->stream, NULL, memory_order_release);
}

/* Makes a tape known to frees, in place of another over the same arena or of none. The
 * stream's lock is held. */
static inline void stalloc_link(struct stalloc_arenas *a, struct stalloc_tape *t, struct stalloc_tape *instead) {
	struct stalloc_stream *s = t->stream;
	if (!instead) {
		t->arena = stalloc_publish(a, s, t->state.base, t->arena_size);
	} else if ((t->arena = instead->arena)) {
		atomic_store_explicit(&t->arena->size, t->arena_size, memory_order_release);
		instead->arena = NULL;
	}
	t->next = s->tapes;
	s->tapes = t;
}

/* Forgets a tape, before it is freed. The stream's lock is held. */
static inline void stalloc_unlink(struct stalloc_tape *t) {
	struct stalloc_tape **at = &t->stream->tapes;
	while (*at && *at != t) at = &(*at)->next;
	if (*at) *at = t->next;
	stalloc_unpublish(t->arena);
	t->arena = NULL;
	atomic_fetch_sub(&t->stream->pinned, t->pinned);
}

#endif
