/* A capture begins while another thread opens a region and waits for memory that streams still
 * work on. The wait ends, the capture goes on, and the region can be opened after it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "filter.h"
#include "kit.h"

enum { STATES = 3, MIB = 1 << 20, CAPACITY = 64 * MIB, GRAPH = 1 };
static const char tag[] = "states";
static char *states[STATES];
static const size_t size = 8 * MIB;
static _Atomic bool opens;
static int opened = -1;

static void nothing(void *at, size_t n, unsigned long told) { (void)at, (void)n, (void)told; }

/* Work on the default stream uses a block, and has not begun when it is freed. */
static void use_late(char *at, size_t n)
{
	int (*launch)(void *, int, void (*)(void *, size_t, unsigned long), void *, size_t,
		      unsigned long);
	*(void **)&launch = kit_symbol("driver", "fakecuda_launch");
	CHECK(launch(NULL, 0, nothing, at, n, 0) == 0, "no such stream");
}

static void *open_region(void *none)
{
	atomic_store(&opens, true);
	opened = stalloc_begin_awake(0, tag, NULL);
	return none;
}

int main(void)
{
	pthread_t other;
	int (*pass)(unsigned long, long), (*capture)(void *), (*end)(void *);
	void *stream = (void *)0x1000;
	struct filter one = {.functor = {.stream = stream}, .manager = copy, .invoker = same};
	setenv("FAKECUDA_CAPACITY", "67108864", 1);
	setenv("FAKECUDA_HELD", "1", 1);
	kit_watchdog(20);
	*(void **)&pass = kit_symbol("driver", "fakecuda_pass");
	*(void **)&capture = kit_symbol("driver", "fakecuda_capture_begin");
	*(void **)&end = kit_symbol("driver", "fakecuda_capture_end");
	CHECK(stalloc_begin_region(tag) == STALLOC_OK, "%s", stalloc_last_error());
	for (int i = 0; i < STATES; i++) {
		states[i] = stalloc_malloc(size, 0, NULL);
		CHECK(states[i], "%s", stalloc_last_error());
		kit_fill(states[i], size, (uint64_t)i);
	}
	CHECK(stalloc_end_region() == STALLOC_OK, "%s", stalloc_last_error());
	int how = STALLOC_CHANGED | STALLOC_ALL_LEAVES;
	CHECK(stalloc_end_awake(0, tag, NULL, how) == STALLOC_OK, "%s", stalloc_last_error());
	for (int i = 0; i < 1000 && kit_stats().asleep < STATES * size; i++) {
		while (pass(0, 1 << 20)) {}
		kit_sleep_ms(1);
	}
	char *idle = stalloc_malloc(60 * MIB, 0, NULL);
	CHECK(idle, "%s", stalloc_last_error());
	use_late(idle, 60 * MIB);
	stalloc_free(idle, 0, 0, NULL);
	stalloc_begin_pool(0, 1, 1, &one);
	stalloc_pool_purpose(0, 1, 1, stream, 0); /* the program's, of which some is captured */
	CHECK(pthread_create(&other, NULL, open_region, NULL) == 0, "no thread");
	while (!atomic_load(&opens)) {}
	kit_sleep_ms(100); /* it waits */
	CHECK(opened < 0, "it opened while work was held back: %d", opened);
	CHECK(capture(stream) >= 0, "no capture");
	stalloc_pool_purpose(0, 1, 1, stream, GRAPH);
	while (pass(0, 1 << 20)) {} /* whatever it waited for is done */
	char *inside = stalloc_malloc(MIB, 0, stream);
	CHECK(inside || opened != STALLOC_OK, "%s", stalloc_last_error());
	CHECK(end(stream) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 1, 1);
	pthread_join(other, NULL);
	printf("hurry: the region was %s meanwhile\n", opened == STALLOC_OK ? "opened" : "refused");
	while (pass(0, 1 << 20)) {}
	if (opened != STALLOC_OK)
		CHECK(stalloc_begin_awake(0, tag, NULL) == STALLOC_OK, "%s", stalloc_last_error());
	while (pass(0, 1 << 20)) {}
	for (int i = 0; i < STATES; i++)
		CHECK(kit_damage(states[i], size, (uint64_t)i) < 0, "a state is damaged");
	return 0;
}
