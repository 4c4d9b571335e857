/* Nanoseconds of what a training program does all the time: a hit and its free,
 * beside malloc and free in the same run; what observing adds; a request without a
 * plan that the pool's cached memory serves, from one thread and from four; and one
 * that goes through the pool's actor in Go, as those of a private pool do. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shared.h"
#include "kit.h"

enum { PAIRS = 1000, ROUNDS = 301, MISSES = 2000, MISS_ROUNDS = 41, THREADS = 4, MANY = 64 };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values, int n)
{
	qsort(values, (size_t)n, sizeof *values, by_value);
	return values[n / 2];
}

/* A step of PAIRS allocations, each freed at once; sizes repeat every 8. */
static double pairs_of_stalloc(void)
{
	double start = kit_seconds();
	for (int i = 0; i < PAIRS; i++) {
		void *p = stalloc_malloc(512u << (i & 7), 0, NULL);
		__asm__ volatile("" : : "r"(p) : "memory");
		stalloc_free(p, 0, 0, NULL);
	}
	return (kit_seconds() - start) * 1e9 / PAIRS;
}

static double pairs_of_malloc(void)
{
	double start = kit_seconds();
	for (int i = 0; i < PAIRS; i++) {
		void *p = malloc(512u << (i & 7));
		__asm__ volatile("" : : "r"(p) : "memory");
		free(p);
	}
	return (kit_seconds() - start) * 1e9 / PAIRS;
}

/* With libstalloc's objects linked in, the benchmark reaches the stream and can
 * switch observation off; libstalloc.so hides it. */
#ifdef INSIDE
struct stalloc_stream *stalloc_stream_of(int device, void *stream);
static struct stalloc_stream *default_stream(void) { return stalloc_stream_of(0, NULL); }
#else
static struct stalloc_stream *default_stream(void) { return NULL; }
#endif

static void plan_it(void)
{
	for (int i = 0; i < 400; i++) {
		uint64_t hits = kit_stats().hits;
		pairs_of_stalloc();
		uint64_t now = kit_stats().hits;
		CHECK(stalloc_step(0) == STALLOC_OK, "%s", stalloc_last_error());
		if (now - hits == PAIRS) return;
		kit_sleep_ms(5);
	}
	CHECK(false, "no plan served the benchmark's step");
}

static void hits(const char *what)
{
	static double ours[ROUNDS], theirs[ROUNDS], quiet[ROUNDS];
	struct stalloc_stats before = kit_stats(), after;
	struct stalloc_stream *s = default_stream();
	for (int i = 0; i < ROUNDS; i++) {
		theirs[i] = pairs_of_malloc();
		ours[i] = pairs_of_stalloc();
		stalloc_step(0); /* takes what was observed */
		if (!s) continue;
		s->recording = 0;
		quiet[i] = pairs_of_stalloc();
		s->recording = 1;
		stalloc_step(0);
	}
	after = kit_stats();
	double a = median(ours, ROUNDS), b = median(theirs, ROUNDS);
	if (s) {
		printf("%-36s %8.1f ns\n", "observing one event", (a - median(quiet, ROUNDS)) / 2);
		return;
	}
	printf("%-36s %8.1f ns\n", "glibc, malloc and free", b);
	printf("%-36s %8.1f ns  %5.2f of glibc's, best %.1f\n", what, a, a / b, ours[0]);
	CHECK(after.hits - before.hits == after.requests - before.requests, "some were misses");
	CHECK(after.lost_events == before.lost_events, "events were lost");
}

/* Sizes that no tape has: one, or many in turn. */
static double misses_of(void *stream, size_t most, int sizes)
{
	double start = kit_seconds();
	for (int i = 0; i < MISSES; i++)
		stalloc_free(stalloc_malloc(most - (size_t)(i % sizes) * 512, 0, stream), 0, 0, stream);
	return (kit_seconds() - start) * 1e9 / MISSES;
}

static void misses_alone(const char *what, void *stream, size_t most, int sizes)
{
	double results[MISS_ROUNDS];
	for (int i = 0; i < MISS_ROUNDS; i++) results[i] = misses_of(stream, most, sizes);
	printf("%-36s %8.1f ns\n", what, median(results, MISS_ROUNDS));
}

static pthread_barrier_t together;

static void *miss_beside_others(void *argument)
{
	static double results[THREADS][MISS_ROUNDS];
	int me = (int)(intptr_t)argument;
	for (int i = 0; i < MISS_ROUNDS; i++) {
		pthread_barrier_wait(&together);
		results[me][i] = misses_of((void *)(uintptr_t)(0x1000 * (me + 1)), 3 << 20, MANY);
	}
	return results[me];
}

static void misses(void)
{
	double four[THREADS];
	pthread_t threads[THREADS];
	misses_alone("cached block and free", (void *)0x1000, 3 << 20, 1);
	misses_alone("the same, many sizes", (void *)0x1000, 3 << 20, MANY);
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, miss_beside_others, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++) {
		void *result;
		pthread_join(threads[i], &result);
		four[i] = median(result, MISS_ROUNDS);
	}
	printf("%-36s %8.1f ns  in each\n", "the same, four threads", median(four, THREADS));
	stalloc_begin_pool(0, 1, 1, NULL);
	misses_alone("one thread, through the pool's actor", (void *)0x1000, 3 << 20, 1);
	stalloc_end_pool(0, 1, 1);
}

int main(void)
{
	plan_it();
	hits("hit and free, guarded and observed");
	if (default_stream()) return 0;
	stalloc_free(stalloc_malloc(512, 0, (void *)0x1000), 0, 0, (void *)0x1000);
	hits("the same, with a second stream");
	misses();
	return 0;
}
