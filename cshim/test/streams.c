/* Streams that the program makes, uses and destroys, thousands of them. Their memory serves the
 * others or goes back, whatever they had in it, and they are forgotten; nobody waits for a mark
 * because of them. The driver is not told of a stream that is gone, whose address may be
 * another's (FAKECUDA_REUSE_STREAMS), but where the program frees a block that such a stream
 * has used: once. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kit.h"

enum { ROUNDS = 300, MANY = 4000, MARKS = 9 };
static const size_t size = 4 << 20;

static void step(void) { OK(stalloc_step(-1)); }

/* When the stream of a block, and another one that has used it, are destroyed. */
enum when { BEHIND, USER_BEFORE, BOTH_BEFORE };

static void ended(enum when when, long may_be_told)
{
	for (int i = 0; i < ROUNDS; i++) {
		void *own = kit_stream(0, 1), *user = kit_stream(0, 1);
		void *p = stalloc_malloc(size, 0, own);
		CHECK(p, "round %d, case %d: %s", i, when, stalloc_last_error());
		kit_fill(p, size, (uint64_t)i);
		if (when == USER_BEFORE || i % 2) stalloc_record_stream(p, user);
		if (when != BEHIND) kit_stream_end(user);
		if (when == BOTH_BEFORE) kit_stream_end(own);
		CHECK(kit_damage(p, size, (uint64_t)i) < 0, "a block was overwritten");
		stalloc_free(p, 0, 0, own);
		if (when != BOTH_BEFORE) kit_stream_end(own);
		if (when == BEHIND) kit_stream_end(user);
		if (i % 3 == 0) step();
		kit_progress();
	}
	step();
	kit_nothing_left(when == BEHIND ? "blocks" : when == USER_BEFORE ? "users" : "both");
	CHECK(fake(live)("dead calls") <= may_be_told,
	      "case %d: %ld calls named a stream that was gone", when, fake(live)("dead calls"));
}

static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The least time of the thread that a mark takes after a step of one stream. */
static double mark(void)
{
	double least = 1;
	for (int i = 0; i < MARKS; i++) {
		for (int k = 0; k < 100; k++)
			stalloc_free(stalloc_malloc(1000, 0, NULL), 0, 0, NULL);
		double t = cpu();
		step();
		if ((t = cpu() - t) < least) least = t;
		kit_sleep_ms(1);
	}
	return least;
}

static void many(uintptr_t first)
{
	for (uintptr_t i = 0; i < MANY; i++) {
		void *s = (void *)(first + 16 * i), *p = stalloc_malloc(1000, 0, s);
		CHECK(p, "stream %zu: %s", (size_t)i, stalloc_last_error());
		stalloc_free(p, 0, 0, s);
		kit_progress();
	}
	step();
	step();
}

static void marks(void)
{
	many(0x1000000);
	double idle = mark();
	stalloc_empty_cache();
	step();
	size_t each = SIZE_MAX; /* the least of some rounds: Go's collector takes its time */
	for (uintptr_t round = 2; round < 10; round++) {
		size_t before = kit_resident(), after;
		many(round << 24);
		stalloc_empty_cache();
		step();
		after = kit_resident();
		if (after < before) after = before;
		if ((after - before) / MANY < each) each = (after - before) / MANY;
	}
	printf("a mark after %d streams that have ended: %.0f us; %zu bytes of the host for each "
	       "that is forgotten\n",
	       MANY, 1e6 * idle, each);
	CHECK(idle < 2e-2, "a mark takes %.1f ms",
	      1e3 * idle); /* 0.3 to 0.4; 100 when each stream is walked */
	CHECK(each < 4096, "%zu bytes a stream", each);
	kit_nothing_left("marks");
}

int main(int n, char **arguments)
{
	bool real = n > 1 && *arguments[1] == 'r';
	setenv("FAKECUDA_ANY_STREAM", real ? "0" : "1", 1);
	setenv("FAKECUDA_CAPACITY", real ? "536870912" : "17179869184", 1);
	kit_watchdog(120);
	if (real) {
		ended(BEHIND, 0);
		ended(USER_BEFORE, ROUNDS);
		ended(BOTH_BEFORE, 2 * ROUNDS);
	} else {
		marks();
	}
	puts("streams: their memory came back");
	return 0;
}
