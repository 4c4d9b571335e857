/* Frees that a thread could not do itself, since another had the device's lock: announced, done by
 * whoever leaves the lock next, and of those what only Go can free, done behind the lock. */
#ifndef STALLOC_DEFERRED_H
#define STALLOC_DEFERRED_H

#include "../fast/fastpath.h"
#include "runtime.h"

/* Frees a block of the engine's, or a plain one. Past: it was announced, and the program has gone on
 * since, so that streams which used it may be gone. */
void stalloc_free_in_engine(uint64_t addr, bool past);

/* Frees what only Go can free, of what others announced. */
void stalloc_free_undone(struct stalloc_device *d);

/* Counts a block that Go has handed out, or one that it has freed. */
void stalloc_count(struct stalloc_device *d, bool in, uint64_t asked);

/* Leaves the lock. A free may have been announced after the last look: its thread relies on
 * whoever holds it. */
static inline void stalloc_unlock_draining(struct stalloc_device *d) {
	stalloc_unlock(d);
	while (STALLOC_UNLIKELY(atomic_load(&d->announced) != NULL) && stalloc_try_lock(d)) {
		stalloc_drain(d);
		stalloc_unlock(d);
	}
}

static inline void stalloc_unlock_and_drain(struct stalloc_device *d) {
	stalloc_unlock_draining(d);
	while (STALLOC_UNLIKELY(STALLOC_RELAXED(d->undone) != NULL)) stalloc_free_undone(d);
}

#endif
