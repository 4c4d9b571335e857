/* The end of a night: all that sleeps wakes, and the host keeps nothing of it. */
#include "model.h"

/* All is awake in the end. More may sleep than a device has: then it wakes a region at a time, and
 * what is awake is freed for the next. */
static void wake_all(void)
{
	struct dream x = {.device = -1};
	for (int rounds = 0; rounds < 2 * REGIONS; rounds++) {
		x.mask = 0;
		dream_play(&x, false);
		if (x.result == STALLOC_OK) return;
		for (int r = 1; r < REGIONS; r++) {
			x.mask = 1u << r;
			dream_play(&x, false);
		}
		for (int i = 0; i < STAYS; i++)
			if (stay_awake(&night.stays[i])) stay_give(&night.stays[i]);
		kit_pass_all();
		stalloc_empty_cache();
	}
	CHECK(false, "it does not wake: %s", x.why);
}

/* What is pinned is unpinned after a resume, or when memory is given back; what could not be is
 * tried again with the next. */
static void unpin(void)
{
	struct dream down = {.device = -1, .pauses = true}, up = {.device = -1};
	unsigned waited = 0;
	for (int i = 0; fake(live)("pins") > 0; i++) {
		kit_pause(&waited, 5, "the last unpinning");
		if (i % 20 != 19) continue;
		stalloc_empty_cache();
		dream_play(&down, true);
		dream_play(&up, false);
	}
}

void dreams_close(void)
{
	wake_all();
	loans_close();
	unpin();
	for (int d = 0; d < life.devices; d++) {
		struct stalloc_stats s = kit_stats_of(d);
		CHECK(s.asleep == 0 && s.backup == 0,
		      "device %d is awake: %llu bytes sleep, %llu are kept", d,
		      (ull)s.asleep, (ull)s.backup);
	}
	stays_look();
}
