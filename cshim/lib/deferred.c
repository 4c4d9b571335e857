#include <stdlib.h>

#include "deferred.h"

static _Atomic bool logged_unknown;

void stalloc_nudge(void) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (e) e->nudge();
}

void stalloc_free_in_engine(uint64_t addr, bool past) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	struct stalloc_freed freed;
	void *ptr = (void *)(uintptr_t)addr;
	if (!(e && e->free(addr, past, &freed) == STALLOC_OK) && !stalloc_plain_free(ptr, &freed))
		stalloc_log_once(&logged_unknown, "free of %p, which is not a live block, ignored (a double free?)", ptr);
	else
		stalloc_count(&stalloc_devices[freed.device], false, freed.asked);
}

void stalloc_free_undone(struct stalloc_device *d) {
	stalloc_lock(d);
	struct stalloc_announced *n = STALLOC_RELAXED(d->undone), *next;
	STALLOC_PUT(d->undone, NULL);
	stalloc_unlock_draining(d);
	for (; n; n = next) {
		next = n->next;
		if (n->addr != 0) stalloc_free_in_engine(n->addr, true);
		free(n);
	}
}

void stalloc_leave(struct stalloc_device *d) { stalloc_unlock_and_drain(d); }

bool stalloc_settle(struct stalloc_device *d) {
	if (STALLOC_RELAXED(d->announced) == NULL && STALLOC_RELAXED(d->undone) == NULL) return false;
	stalloc_lock(d);
	stalloc_drain(d);
	stalloc_unlock_and_drain(d);
	return true;
}

void stalloc_count(struct stalloc_device *d, bool in, uint64_t asked) {
	stalloc_lock(d);
	(in ? stalloc_count_in : stalloc_count_out)(d, (int64_t)stalloc_round(asked), (int64_t)asked);
	stalloc_unlock_and_drain(d);
}
