#include <stdlib.h>
#include <time.h>

#include "deferred.h"

static _Atomic bool logged_unknown;
/* How often this thread is among a device's senders: a signal handler that interrupts it there does
 * not wait for it. */
static __thread uint32_t sending;
enum { MOST_PAUSES = 10000 }; /* of 20 us and more: 0.2 s, not for ever */

void stalloc_nudge(void) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (e) e->nudge();
}

void stalloc_free_in_engine(uint64_t addr, bool deferred) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	struct stalloc_freed freed;
	void *ptr = (void *)(uintptr_t)addr;
	if (!(e && e->free(addr, deferred, &freed) == STALLOC_OK) &&
	    !stalloc_plain_free(ptr, &freed))
		stalloc_log_once(&logged_unknown,
				 "free of %p, which is not a live block, ignored (a double free?)",
				 ptr);
	else
		stalloc_count(&stalloc_devices[freed.device], false, freed.asked);
}

void stalloc_send_frees_to_go(struct stalloc_device *d) {
	stalloc_lock(d);
	struct stalloc_deferred_free *n = STALLOC_RELAXED(d->frees_for_go), *next;
	STALLOC_PUT(d->frees_for_go, NULL);
	atomic_fetch_add(&d->senders, 1);
	stalloc_unlock_and_drain_in_c(d);
	sending++;
	for (; n; n = next) {
		next = n->next;
		if (n->addr != 0) stalloc_free_in_engine(n->addr, true);
		free(n);
	}
	sending--;
	atomic_fetch_sub(&d->senders, 1);
}

bool stalloc_drain_now(struct stalloc_device *d) {
	if (!atomic_load(&d->streams)) return false;
	stalloc_lock(d); /* who has it may have frees in hand */
	stalloc_drain(d);
	bool others = atomic_load(&d->senders) > sending,
	     some = others || STALLOC_RELAXED(d->frees_for_go);
	stalloc_unlock_and_drain(d);
	const struct timespec pause = {0, 20000};
	for (int i = 0; others && i < MOST_PAUSES; i++) {
		nanosleep(&pause, NULL);
		others = atomic_load(&d->senders) > sending;
	}
	return some;
}

void stalloc_count(struct stalloc_device *d, bool in, uint64_t asked) {
	stalloc_lock(d);
	(in ? stalloc_count_in : stalloc_count_out)(d, (int64_t)stalloc_round(asked),
						    (int64_t)asked);
	stalloc_unlock_and_drain(d);
}
