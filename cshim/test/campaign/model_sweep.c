/* Each driver call of a pause and of a resume fails in turn, while a part sleeps already whose
 * handle values others have by now. */
#include <stdio.h>
#include <string.h>

#include "model.h"

enum { MOST = 12, OTHERS = 6 };

/* One after which others take memory. */
static void step(struct dream x, const char *call, long nth, bool keep)
{
	if (nth) snprintf(x.rule, sizeof x.rule, "%s:%ld:%d", call, nth, chance(2) ? 999 : 2);
	x.fails = nth > 0;
	dream_play(&x, keep);
	stays_look();
}

static void others(void)
{
	for (int i = 0; i < OTHERS; i++) {
		struct stay *s = &night.stays[below(STAYS)];
		if (!s->p.at) stay_get(s);
	}
}

/* True: it wakes. */
static bool wakes(int device)
{
	struct dream all = {.device = device};
	dream_play(&all, false);
	stays_look();
	return all.result == STALLOC_OK;
}

void sweep(void)
{
	int device = (int)below((uint64_t)life.devices);
	const char *call = chance(3) ? "*" : chance(3) ? "cuMemMap" : "cuMemUnmap";
	long failed = 0;
	if (night.closed[device]) return;
	for (long nth = 1; nth <= MOST; nth += 1 + (call[0] == '*' ? (long)below(6) : 0)) {
		struct dream part = {.device = device,
				     .pauses = true,
				     .mask = (unsigned)below(1 << REGIONS) & ~1u};
		struct dream all = {.device = device, .pauses = true}, up = {.device = device};
		if (!part.mask || !wakes(device)) continue;
		others();
		step(part, call, 0, true);
		others();
		long before = fake(count)(call);
		step(all, call, nth, !chance(3));
		bool called = fake(count)(call) - before >= nth;
		others();
		step(up, call, nth, true);
		if (!called && ++failed > 2) break; /* there are no more */
	}
}
