/* Deferred frees. A thread that finds the device's lock taken pushes its free to a lock-free list
 * instead of waiting. Whoever releases the lock next drains that list: it performs the frees that C
 * can perform, and passes the others to Go after it has released the lock. */
#ifndef STALLOC_DEFERRED_H
#define STALLOC_DEFERRED_H

#include "../fast/fastpath.h"
#include "runtime.h"

/* Frees a block that only the engine can free (another stream uses it, or it is not in the range),
 * or a plain driver allocation. deferred: the free waited for the lock while the program went on,
 * so streams that used the block may have been destroyed since. */
void stalloc_free_in_engine(uint64_t addr, bool deferred);

/* Passes the deferred frees that only Go can perform to Go. */
void stalloc_send_frees_to_go(struct stalloc_device *d);

/* Counts a block that Go has allocated (in) or freed. */
void stalloc_count(struct stalloc_device *d, bool in, uint64_t asked);

/* Releases the lock, and takes it again while there are deferred frees: a thread that deferred its
 * free just before the release relies on this check. */
static inline void stalloc_unlock_and_drain_in_c(struct stalloc_device *d) {
	stalloc_unlock(d);
	while (STALLOC_UNLIKELY(atomic_load(&d->deferred_frees) != NULL) && stalloc_try_lock(d)) {
		stalloc_drain(d);
		stalloc_unlock(d);
	}
}

/* The same, and then passes what only Go can free to Go. */
static inline void stalloc_unlock_and_drain(struct stalloc_device *d) {
	stalloc_unlock_and_drain_in_c(d);
	while (STALLOC_UNLIKELY(STALLOC_RELAXED(d->frees_for_go) != NULL))
		stalloc_send_frees_to_go(d);
}

#endif
