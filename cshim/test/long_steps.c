/* Steps of many requests, and many steps: what is observed of them is planned, and takes
 * bounded memory of the host. A step that is too long is said to be, once. */
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

enum { MOST = 1 << 20, LIVE = 8 };

/* A step of so many requests, and as many frees. */
static void step(int requests)
{
	void *live[LIVE] = {0};
	for (int i = 0; i < requests + LIVE; i++) {
		stalloc_free(live[i % LIVE], 0, 0, NULL);
		live[i % LIVE] =
			i < requests ? stalloc_malloc((size_t)(1 + i % 37) * 2048, 0, NULL) : NULL;
		CHECK(i >= requests || live[i % LIVE], "%s", stalloc_last_error());
	}
	OK(stalloc_step(0));
	kit_progress();
}

/* A step of 2^20 events is observed whole. Where the planner has not read the one before it yet,
 * it is left out, whole again. */
static void longest(void)
{
	for (unsigned waited = 0;; kit_wait(&waited, 20, "a step of 2^20 events")) {
		uint64_t lost = kit_stats().lost_events;
		step(MOST / 2);
		if (kit_stats().lost_events - lost < 1000) return;
	}
}

/* A plan serves steps of more than 65,536 events. */
static void planned(void)
{
	enum { REQUESTS = 35000 };
	for (unsigned waited = 0;;) {
		uint64_t hits = kit_stats().hits;
		step(REQUESTS);
		if (kit_stats().hits - hits == REQUESTS) return;
		kit_wait(&waited, 20, "a plan for a long step");
	}
}

/* More than a million events are not all observed. */
static void too_long(void)
{
	for (int i = 0; i < 2; i++) {
		uint64_t lost = kit_stats().lost_events;
		step(MOST / 2 + 500);
		CHECK(kit_stats().lost_events >= lost + 1000, "what is too much was not counted");
	}
}

/* As fast as they can, and few enough requests that nothing else slows them down. */
static void many(void)
{
	for (int i = 0; i < 3000; i++) step(4000);
}

int main(void)
{
	size_t early, late;
	kit_watchdog(120);
	kit_stderr_begin();
	step(10); /* from the first mark on none ends by itself */
	longest();
	many(); /* while the planner looks at the long step, which takes memory once */
	early = kit_resident();
	many();
	late = kit_resident();
	too_long();
	planned();
	int lines = kit_stderr_end("a step is not planned");
	printf("own memory: %zu MiB, then %zu, at the end %zu\n", early >> 20, late >> 20,
	       kit_resident() >> 20);
	CHECK(lines == 1, "a step that is too long was said to be %d times", lines);
	CHECK(late < early + ((size_t)256 << 20), "%zu MiB became %zu", early >> 20, late >> 20);
	CHECK(kit_resident() < (size_t)1 << 30, "%zu MiB became %zu", early >> 20,
	      kit_resident() >> 20);
	return 0;
}
