#include <stdlib.h>

#include "deferred.h"

static _Atomic bool logged_unknown;

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
	stalloc_unlock_and_drain_in_c(d);
	for (; n; n = next) {
		next = n->next;
		if (n->addr != 0) stalloc_free_in_engine(n->addr, true);
		free(n);
	}
}

bool stalloc_drain_now(struct stalloc_device *d) {
	if (STALLOC_RELAXED(d->deferred_frees) == NULL && STALLOC_RELAXED(d->frees_for_go) == NULL)
		return false;
	stalloc_lock(d);
	stalloc_drain(d);
	stalloc_unlock_and_drain(d);
	return true;
}

void stalloc_count(struct stalloc_device *d, bool in, uint64_t asked) {
	stalloc_lock(d);
	(in ? stalloc_count_in : stalloc_count_out)(d, (int64_t)stalloc_round(asked),
						    (int64_t)asked);
	stalloc_unlock_and_drain(d);
}
