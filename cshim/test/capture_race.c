/* A capture begins while another thread opens a region and waits for memory that streams still
 * work on. The wait ends, the capture goes on, and the region can be opened after it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

enum { STATES = 3, MIB = 1 << 20, CAPACITY = 64 * MIB, GRAPH = 1 };
static const char tag[] = "states";
static char *states[STATES];
static const size_t size = 8 * MIB;
static _Atomic bool opens;
static int opened = -1;

static void nothing(void *at, size_t n, unsigned long told) { (void)at, (void)n, (void)told; }

static void *open_region(void *none)
{
	atomic_store(&opens, true);
	opened = stalloc_begin_awake(0, tag, NULL);
	return none;
}

int main(void)
{
	pthread_t other;
	void *stream = (void *)0x1000;
	struct kit_filter one = kit_only(stream);
	setenv("FAKECUDA_CAPACITY", "67108864", 1);
	setenv("FAKECUDA_HELD", "1", 1);
	kit_watchdog(20);
	OK(stalloc_begin_region(tag));
	for (int i = 0; i < STATES; i++) {
		states[i] = kit_get(size, 0, NULL);
		kit_fill(states[i], size, (uint64_t)i);
	}
	OK(stalloc_end_region());
	int how = STALLOC_CHANGED | STALLOC_ALL_LEAVES;
	OK(stalloc_end_awake(0, tag, NULL, how));
	for (unsigned waited = 0; kit_stats().asleep < STATES * size;) {
		kit_pass_all();
		kit_wait(&waited, 1, "a region that has left");
	}
	char *idle = kit_get(60 * MIB, 0, NULL);
	CHECK(fake(launch)(NULL, 0, nothing, idle, 60 * MIB, 0) == 0, "no such stream");
	stalloc_free(idle, 0, 0, NULL); /* before that has begun */
	stalloc_begin_pool(0, 1, 1, &one);
	stalloc_pool_purpose(0, 1, 1, stream, 0); /* the program's, of which some is captured */
	other = kit_thread(open_region, NULL);
	while (!atomic_load(&opens)) {}
	kit_sleep_ms(100); /* it waits */
	CHECK(opened < 0, "it opened while work was held back: %d", opened);
	CHECK(fake(capture_begin)(stream) >= 0, "no capture");
	stalloc_pool_purpose(0, 1, 1, stream, GRAPH);
	kit_pass_all(); /* whatever it waited for is done */
	char *inside = stalloc_malloc(MIB, 0, stream);
	CHECK(inside || opened != STALLOC_OK, "%s", stalloc_last_error());
	CHECK(fake(capture_end)(stream) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 1, 1);
	pthread_join(other, NULL);
	printf("capture_race: the region was %s meanwhile\n",
	       opened == STALLOC_OK ? "opened" : "refused");
	kit_pass_all();
	if (opened != STALLOC_OK) OK(stalloc_begin_awake(0, tag, NULL));
	kit_pass_all();
	for (int i = 0; i < STATES; i++)
		CHECK(kit_damage(states[i], size, (uint64_t)i) < 0, "a state is damaged");
	return 0;
}
