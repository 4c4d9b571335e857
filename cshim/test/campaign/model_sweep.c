/* Each driver call of a pause and of a resume fails in turn, while a part sleeps already whose
 * handle values others have by now. */
#include <stdio.h>
#include <string.h>

#include "model.h"

enum { MOST = 12, OTHERS = 6 };

/* A call that fails at the nth driver call; 0: at none. */
static void faulty_call(struct sleep_call x, const char *call, long nth, bool keep)
{
	if (nth) snprintf(x.rule, sizeof x.rule, "%s:%ld:%d", call, nth, chance(2) ? 999 : 2);
	x.fails = nth > 0;
	sleep_call_play(&x, keep);
	model_check();
}

static void more_blocks(void)
{
	for (int i = 0; i < OTHERS; i++) {
		struct block *b = &model.blocks[below(BLOCKS)];
		if (!b->p.at) model_malloc(b);
	}
}

/* Resumes all. */
static bool resumes(int device)
{
	struct sleep_call all = {.device = device};
	sleep_call_play(&all, false);
	model_check();
	return all.result == STALLOC_OK;
}

void fault_sweep(void)
{
	int device = (int)below((uint64_t)run.devices);
	const char *call = chance(3) ? "*" : chance(3) ? "cuMemMap" : "cuMemUnmap";
	long failed = 0;
	if (model.closed[device]) return;
	for (long nth = 1; nth <= MOST; nth += 1 + (call[0] == '*' ? (long)below(6) : 0)) {
		struct sleep_call part = {.device = device,
					  .pauses = true,
					  .mask = (unsigned)below(1 << REGIONS) & ~1u};
		struct sleep_call all = {.device = device, .pauses = true}, up = {.device = device};
		if (!part.mask || !resumes(device)) continue;
		more_blocks();
		faulty_call(part, call, 0, true);
		more_blocks();
		long before = fake(count)(call);
		faulty_call(all, call, nth, !chance(3));
		bool called = fake(count)(call) - before >= nth;
		more_blocks();
		faulty_call(up, call, nth, true);
		if (!called && ++failed > 2) break; /* there are no more */
	}
}
