/* Whether a block will be gone when its step needs the most memory, foreseen from what the
 * device was asked last: stream/shortlived, which has the idea. What was asked last is read from
 * the log when a gap is to be chosen. The caller holds the device's lock. */
#ifndef STALLOC_SHORT_LIVED_H
#define STALLOC_SHORT_LIVED_H

#include "shared.h"

#define SHORT_LIVED_LARGE (1u << 15) /* shortlived.Large */

enum { SHORT_LIVED_OTHER = 1, SHORT_LIVED_SAME, SHORT_LIVED_FREE };

static inline uint32_t short_lived_with(const struct stalloc_log *l, uint64_t n) { return l->word << 2 | (n == l->last ? SHORT_LIVED_SAME : SHORT_LIVED_OTHER); }

/* Goes on to the log's end. Of a long stretch only its end is read: behind the first of 17
 * requests it is known what comes before it, and all that the word holds is behind that. */
static inline void short_lived_read(struct stalloc_log *l) {
	struct stalloc_event *e = l->next;
	for (int requests = 0; e != l->read && requests <= 16; requests += e->info >> 24 > STALLOC_SHORT_LIVED_SMALL && (e->info & 0xff) <= STALLOC_EV_MISS) e--;
	for (; e != l->next; e++) {
		uint64_t n = e->info >> 24;
		uint32_t kind = e->info & 0xff;
		if (n <= STALLOC_SHORT_LIVED_SMALL) continue;
		if (kind <= STALLOC_EV_MISS) {
			l->word = short_lived_with(l, n);
			l->last = n;
		} else if (kind <= STALLOC_EV_LATE) {
			l->word = l->word << 2 | SHORT_LIVED_FREE;
		}
	}
	l->read = l->next;
}

/* Whether a request of n units is for such a block. */
static inline bool stalloc_short_lived(struct stalloc_device *d, uint64_t n) {
	if (n <= STALLOC_SHORT_LIVED_SMALL || n >= SHORT_LIVED_LARGE) return false;
	short_lived_read(&d->log);
	uint32_t key = short_lived_with(&d->log, n) * 0x9e3779b1u >> (32 - STALLOC_SHORT_LIVED_KEY_BITS);
	return d->short_lived[key / 64] >> key % 64 & 1;
}

#endif
