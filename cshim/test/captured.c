/* Streams that are being captured into a graph, and streams in numbers. A captured stream
 * takes no fence and cannot be waited for: what it uses stays taken until the capture
 * is over, and nobody else is kept waiting for memory. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "kit.h"

enum { BLOCKS = 8, TRIES = 40, STREAMS = 300, MANY = 2000 };
static const size_t size = 3 << 20;
static void *const captured = (void *)0x1000;

static int capture(const char *name, void *stream)
{
	int (*f)(void *);
	*(void **)&f = kit_symbol("driver", name);
	return f(stream);
}

static void step(void) { CHECK(stalloc_step(-1) == STALLOC_OK, "%s", stalloc_last_error()); }

/* Steps of one kind, so that a plan serves them if there are plans. */
static void steps(int n, const char *taken)
{
	for (int i = 0; i < n; i++) {
		char *blocks[BLOCKS];
		for (int b = 0; b < BLOCKS; b++) {
			blocks[b] = stalloc_malloc(size, 0, NULL);
			CHECK(blocks[b], "%s", stalloc_last_error());
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
	CHECK(capture("fakecuda_capture_begin", captured) >= 0, "no capture");
	stalloc_free(used, 0, 0, NULL);
	steps(TRIES, used);
	CHECK(kit_damage(used, size, 1) < 0, "the block was overwritten");
	CHECK(capture("fakecuda_capture_end", captured) == 1, "the capture was invalidated");
	for (int i = 0; i < 3; i++) step();
	stalloc_empty_cache();
	struct stalloc_stats s = kit_stats();
	CHECK(s.active == 0 && s.reserved == 0, "%llu bytes wait, %llu are held", (unsigned long long)s.active,
	      (unsigned long long)s.reserved);
}

/* More streams than there is memory for, one of them captured. */
static void idle_memory_serves_others(void)
{
	void *first = (void *)0x10000;
	stalloc_free(stalloc_malloc(size, 0, first), 0, 0, first);
	CHECK(capture("fakecuda_capture_begin", first) >= 0, "no capture");
	for (uintptr_t i = 1; i < STREAMS; i++) {
		void *stream = (void *)(0x10000 + 16 * i), *at = stalloc_malloc(size, 0, stream);
		CHECK(at, "stream %zu: %s", (size_t)i, stalloc_last_error());
		stalloc_free(at, 0, 0, stream);
	}
	CHECK(capture("fakecuda_capture_end", first) == 1, "the capture was invalidated");
	stalloc_empty_cache();
	struct stalloc_stats s = kit_stats();
	CHECK(s.reserved == 0, "%llu bytes are held", (unsigned long long)s.reserved);
}

static size_t resident(void)
{
	size_t total, pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%zu %zu", &total, &pages) == 2, "no /proc");
	fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void a_stream_takes_little(void)
{
	size_t before = resident();
	for (uintptr_t i = 0; i < MANY; i++) {
		void *stream = (void *)(0x100000 + 16 * i), *at = stalloc_malloc(1000, 0, stream);
		CHECK(at, "stream %zu: %s", (size_t)i, stalloc_last_error());
		stalloc_free(at, 0, 0, stream);
	}
	size_t each = (resident() - before) / MANY;
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
	a_stream_takes_little();
	puts("captured: nothing was handed out too early");
	return 0;
}
