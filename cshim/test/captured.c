/* Streams that are being captured into a graph, and streams in numbers. A captured stream
 * takes no fence, and the device cannot be waited for: what it uses stays taken until the
 * capture is over, and nothing of ours ends it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

enum { BLOCKS = 8, TRIES = 40, STREAMS = 300, MANY = 2000 };
static const size_t size = 3 << 20;
static void *const captured = (void *)0x1000;

static void step(void) { OK(stalloc_step(-1)); }

/* Steps of one kind, so that a plan serves them if there are plans. */
static void steps(int n, const char *taken)
{
	for (int i = 0; i < n; i++) {
		char *blocks[BLOCKS];
		for (int b = 0; b < BLOCKS; b++) {
			blocks[b] = kit_get(size, 0, NULL);
			CHECK(!taken || blocks[b] >= taken + size || taken >= blocks[b] + size,
			      "a block that the captured stream uses was handed out in step %d", i);
		}
		for (int b = 0; b < BLOCKS; b++) stalloc_free(blocks[b], 0, 0, NULL);
		step();
		if (!taken) kit_sleep_ms(2);
	}
}

static void uses_under_capture(void)
{
	steps(TRIES, NULL);
	char *used = stalloc_malloc(size, 0, NULL);
	kit_fill(used, size, 1);
	stalloc_record_stream(used, captured);
	CHECK(fake(capture_begin)(captured) >= 0, "no capture");
	stalloc_free(used, 0, 0, NULL);
	steps(TRIES, used);
	CHECK(kit_damage(used, size, 1) < 0, "the block was overwritten");
	CHECK(fake(capture_end)(captured) == 1, "the capture was invalidated");
	for (int i = 0; i < 3; i++) step();
	kit_nothing_left("a capture");
}

/* More streams than there is memory for. While one of them is captured nobody waits for the
 * device, which would end the capture: a request that is short of memory is refused. */
static void idle_memory_serves_others(void)
{
	void *first = (void *)0x10000;
	struct kit_filter only_first = kit_only(first);
	int refused = 0;
	stalloc_begin_pool(0, 1, 0, &only_first);
	CHECK(fake(capture_begin)(first) >= 0, "no capture");
	void *inside = kit_get(size, 0, first);
	for (uintptr_t i = 1; i < STREAMS; i++) {
		void *stream = (void *)(0x10000 + 16 * i), *at = stalloc_malloc(size, 0, stream);
		CHECK(at || strstr(stalloc_last_error(), "no memory left"), "stream %zu: %s",
		      (size_t)i, stalloc_last_error());
		refused += !at;
		stalloc_free(at, 0, 0, stream);
	}
	CHECK(!stalloc_malloc(4 * size, 0, first),
	      "memory that the device may still work on was handed to the captured stream");
	stalloc_empty_cache();
	stalloc_free(inside, 0, 0, first);
	CHECK(fake(capture_end)(first) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 1, 0);
	CHECK(refused > 0, "there was memory for all streams");
	for (uintptr_t i = 1; i < STREAMS; i++) {
		void *stream = (void *)(0x20000 + 16 * i), *at = stalloc_malloc(size, 0, stream);
		CHECK(at, "stream %zu: %s", (size_t)i, stalloc_last_error());
		stalloc_free(at, 0, 0, stream);
	}
	stalloc_release_pool(0, 1, 0);
	kit_nothing_left("many streams");
}

/* One private pool serves a stream that is captured and another one, which needs what the default
 * stream holds idle. Nobody waits for the device, and the memory is had all the same, but where the
 * captured stream and the default one wait for each other: then it may not be named. */
static void another_stream_of_the_pool(bool first)
{
	enum { NON_BLOCKING = 1 };
	for (unsigned flags = 0; flags <= NON_BLOCKING; flags++) {
		void *idle = stalloc_malloc(200 << 20, 0, NULL), *a = kit_stream(0, flags),
		     *b = kit_stream(0, NON_BLOCKING), *at[2] = {NULL};
		CHECK(idle, "%s", stalloc_last_error());
		stalloc_free(idle, 0, 0, NULL);
		stalloc_begin_pool(0, 7, flags, NULL);
		CHECK(fake(capture_begin)(a) >= 0, "no capture");
		if (first)
			at[0] = stalloc_malloc(1 << 20, 0,
					       a); /* else nothing is known of the stream yet */
		at[1] = stalloc_malloc(150 << 20, 0, b);
		CHECK((at[1] != NULL) == (flags == NON_BLOCKING), "flags %u: %s", flags,
		      stalloc_last_error());
		CHECK(fake(capture_end)(a) == 1, "flags %u: the capture was invalidated", flags);
		stalloc_end_pool(0, 7, flags);
		for (int i = 0; i < 2; i++) stalloc_free(at[i], 0, 0, i ? b : a);
		stalloc_release_pool(0, 7, flags);
		kit_nothing_left("a pool of two streams");
	}
}

static void a_stream_takes_little(void)
{
	size_t before = kit_resident();
	for (uintptr_t i = 0; i < MANY; i++) {
		void *stream = (void *)(0x100000 + 16 * i), *at = stalloc_malloc(1000, 0, stream);
		CHECK(at, "stream %zu: %s", (size_t)i, stalloc_last_error());
		stalloc_free(at, 0, 0, stream);
	}
	size_t each = (kit_resident() - before) / MANY;
	printf("%zu bytes of host memory a stream\n", each);
	CHECK(each < 64 << 10, "%zu bytes", each);
}

int main(void)
{
	setenv("FAKECUDA_CAPACITY", "268435456", 1);
	kit_watchdog(120);
	uses_under_capture();
	kit_progress();
	idle_memory_serves_others();
	kit_progress();
	another_stream_of_the_pool(true);
	another_stream_of_the_pool(false);
	kit_progress();
	a_stream_takes_little();
	puts("captured: nothing was handed out too early");
	return 0;
}
