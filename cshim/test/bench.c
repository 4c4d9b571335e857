/* Nanoseconds of what a training program does all the time: a hit and its free, beside
 * malloc and free in the same run, where lives are nested and where they end in no order; a request
 * that a gap of the range serves, and its free, with few and with many live blocks, one after the
 * other and in any order; a free that meets another thread with the lock; threads that meet there,
 * beside malloc; requests that go through Go; and boundaries that put a plan in place, or end a
 * step that it served, on the thread that calls. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

enum {
	PAIRS = 1000,
	ROUNDS = 301,
	REQUESTS = 2000,
	REQUEST_ROUNDS = 41,
	THREADS = 4,
	LONG = 20000,
	FEW = 1000,
	MANY = 100000,
	ENTRIES = 20000,
	LIVE = 500,
	PLANS = 8,
	BESIDE = 200
};

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
		stalloc_free(p, 512u << (i & 7), 0, NULL);
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

/* A step of PAIRS allocations whose lives end in no order: the same in every step. */
static double mixed(bool theirs)
{
	static void *at[BESIDE];
	uint64_t seed = 7;
	double start = kit_seconds();
	for (int i = 0; i < PAIRS; i++) {
		uint64_t x = kit_random(&seed);
		void **p = &at[i < BESIDE ? (uint64_t)i : x % BESIDE];
		size_t size = 512 * (1 + (x >> 32) % 1024);
		if (theirs) {
			free(*p);
			*p = malloc(size /
				    64); /* of the same sizes it would ask the system for memory */
		} else {
			stalloc_free(*p, 0, 0, NULL);
			*p = stalloc_malloc(size, 0, NULL);
		}
	}
	for (int i = 0; i < BESIDE; i++) {
		theirs ? free(at[i]) : stalloc_free(at[i], 0, 0, NULL);
		at[i] = NULL;
	}
	return (kit_seconds() - start) * 1e9 / PAIRS;
}

static double mixed_of_stalloc(void) { return mixed(false); }
static double mixed_of_malloc(void) { return mixed(true); }

typedef double (*step)(void);

static void plan_it(step ours)
{
	for (int i = 0; i < 400; i++) {
		uint64_t hits = kit_stats().hits;
		ours();
		uint64_t now = kit_stats().hits;
		OK(stalloc_step(0));
		if (now - hits == PAIRS) return;
		kit_sleep_ms(5);
	}
	CHECK(false, "no plan served the benchmark's step");
}

static void print(const char *what, double *values, int n, double theirs)
{
	double middle = median(values, n);
	printf("%-44s %8.1f ns, best %.1f", what, middle, values[0]);
	if (theirs > 0) printf("  %5.2f of glibc's", middle / theirs);
	putchar('\n');
}

static void hits(const char *what, step our_step, step their_step)
{
	static double ours[ROUNDS], theirs[ROUNDS];
	plan_it(our_step);
	struct stalloc_stats before = kit_stats(), after;
	for (int i = 0; i < ROUNDS; i++) {
		theirs[i] = their_step();
		ours[i] = our_step();
		stalloc_step(0); /* takes what was observed */
	}
	after = kit_stats();
	print("glibc, malloc and free", theirs, ROUNDS, 0);
	print(what, ours, ROUNDS, median(theirs, ROUNDS));
	CHECK(after.hits - before.hits == after.requests - before.requests, "some were misses");
	CHECK(after.lost_events == before.lost_events, "events were lost");
}

static uint64_t random_state = 1;

/* Sizes of a training program: most are small. */
static size_t some_size(void)
{
	uint64_t x = kit_random(&random_state);
	return x & 3 ? 512 * (1 + (x >> 8) % 128) : 65536 + 512 * ((x >> 8) % 256);
}

/* Among live blocks on a stream of their own, which no plan knows: pairs, and frees and
 * requests in any order. */
static void range_among(void *stream, int live)
{
	static void *at[MANY];
	static double pairs[REQUEST_ROUNDS], any[REQUEST_ROUNDS];
	char what[64];
	for (int i = 0; i < live; i++) at[i] = stalloc_malloc(some_size(), 0, stream);
	for (int i = 0; i < 2 * live; i++) {
		void **p = &at[kit_below(&random_state, (uint64_t)live)];
		stalloc_free(*p, 0, 0, stream);
		*p = stalloc_malloc(some_size(), 0, stream);
	}
	for (int n = 0; n < REQUEST_ROUNDS; n++) {
		double start = kit_seconds();
		for (int i = 0; i < REQUESTS; i++)
			stalloc_free(stalloc_malloc(some_size(), 0, stream), 0, 0, stream);
		pairs[n] = (kit_seconds() - start) * 1e9 / REQUESTS;
		start = kit_seconds();
		for (int i = 0; i < REQUESTS; i++) {
			void **p = &at[kit_below(&random_state, (uint64_t)live)];
			stalloc_free(*p, 0, 0, stream);
			*p = stalloc_malloc(some_size(), 0, stream);
		}
		any[n] = (kit_seconds() - start) * 1e9 / REQUESTS;
	}
	snprintf(what, sizeof what, "without a plan, %d live blocks", live);
	print(what, pairs, REQUEST_ROUNDS, 0);
	print("the same, any block and another", any, REQUEST_ROUNDS, 0);
	for (int i = 0; i < live; i++) stalloc_free(at[i], 0, 0, stream);
}

static _Atomic int stop;

/* Keeps Go at work on the device. */
static void *ask(void *nothing)
{
	while (!atomic_load(&stop)) stalloc_empty_cache();
	return nothing;
}

static void deferred(void)
{
	static double results[REQUEST_ROUNDS];
	static void *at[REQUESTS];
	pthread_t thread = kit_thread(ask, NULL);
	for (int n = 0; n < REQUEST_ROUNDS; n++) {
		for (int i = 0; i < REQUESTS / 10; i++)
			at[i] = stalloc_malloc(4096, 0, (void *)0x1000);
		double start = kit_seconds();
		for (int i = 0; i < REQUESTS / 10; i++)
			stalloc_free(at[i], 4096, 0, (void *)0x1000);
		results[n] = (kit_seconds() - start) * 1e10 / REQUESTS;
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	print("a free while Go is at work", results, REQUEST_ROUNDS, 0);
}

static pthread_barrier_t together;

/* What one of several threads does: pairs of a size on a stream, or of malloc. */
struct worker {
	pthread_t thread;
	size_t size;
	void *stream;
	bool theirs;
	double results[REQUEST_ROUNDS];
};

static void *beside_others(void *argument)
{
	struct worker *w = argument;
	for (int n = 0; n < REQUEST_ROUNDS; n++) {
		pthread_barrier_wait(&together);
		double start = kit_seconds();
		for (int i = 0; i < LONG; i++) {
			void *p =
				w->theirs ? malloc(w->size) : stalloc_malloc(w->size, 0, w->stream);
			__asm__ volatile("" : : "r"(p) : "memory");
			if (w->theirs)
				free(p);
			else
				stalloc_free(p, w->size, 0, w->stream);
		}
		w->results[n] = (kit_seconds() - start) * 1e9 / LONG;
	}
	return NULL;
}

static void threads(const char *what, size_t size, int streams, bool theirs)
{
	static struct worker workers[THREADS];
	double each[THREADS];
	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++) {
		workers[i] =
			(struct worker){.size = size,
					.stream = (void *)(uintptr_t)(0x1000 * (i % streams + 1)),
					.theirs = theirs};
		workers[i].thread = kit_thread(beside_others, &workers[i]);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		each[i] = median(workers[i].results, REQUEST_ROUNDS);
	}
	print(what, each, THREADS, 0);
}

/* Requests of a private pool; and large ones, which C serves alone. */
static void through_go(void)
{
	static double results[REQUEST_ROUNDS];
	stalloc_begin_pool(0, 1, 1, NULL);
	for (int n = 0; n < REQUEST_ROUNDS; n++) {
		double start = kit_seconds();
		for (int i = 0; i < REQUESTS / 10; i++)
			stalloc_free(stalloc_malloc(3 << 20, 0, (void *)0x1000), 0, 0,
				     (void *)0x1000);
		results[n] = (kit_seconds() - start) * 1e10 / REQUESTS;
	}
	stalloc_end_pool(0, 1, 1);
	print("through Go", results, REQUEST_ROUNDS, 0);
	threads("3 MiB without a plan, four threads", 3 << 20, THREADS, false);
}

/* A step of ENTRIES requests, each of which lives while some others come. */
static void long_step(uint64_t seed)
{
	static void *at[LIVE];
	for (int i = 0; i < ENTRIES + LIVE; i++) {
		stalloc_free(at[i % LIVE], 0, 0, NULL);
		at[i % LIVE] = i < ENTRIES
				       ? stalloc_malloc(512 * (1 + kit_below(&seed, 4000)), 0, NULL)
				       : NULL;
	}
}

/* A boundary that puts another plan in place of one, and one after a step that this served.
 * False: none does here. */
static bool boundary(uint64_t plan, double *with, double *after)
{
	for (int i = 0; i < 400; i++) {
		struct stalloc_stats before = kit_stats();
		long_step(plan);
		bool served = kit_stats().hits - before.hits > ENTRIES * 9 / 10;
		double start = kit_seconds();
		OK(stalloc_step(0));
		double took = (kit_seconds() - start) * 1e9;
		if (kit_stats().plan_generation != before.plan_generation) {
			*with = took;
		} else if (served && *with > 0) {
			*after = took;
			return true;
		}
		kit_sleep_ms(5);
	}
	return false;
}

static void boundaries(void)
{
	static double with[PLANS], after[PLANS];
	int n = 0;
	for (uint64_t plan = 1; plan <= PLANS; plan++) n += boundary(plan, &with[n], &after[n]);
	if (n < PLANS) printf("%d of %d long steps were served by no plan\n", PLANS - n, PLANS);
	if (n == 0) return;
	print("a boundary with a plan of 20,000 requests", with, n, 0);
	print("a boundary after 20,000 hits", after, n, 0);
}

int main(void)
{
	hits("a hit and its free", pairs_of_stalloc, pairs_of_malloc);
	stalloc_free(stalloc_malloc(512, 0, (void *)0x1000), 0, 0, (void *)0x1000);
	hits("the same, with a second stream", pairs_of_stalloc, pairs_of_malloc);
	hits("the same, lives that end in no order", mixed_of_stalloc, mixed_of_malloc);
	range_among((void *)0x2000, FEW);
	range_among((void *)0x3000, MANY);
	deferred();
	threads("glibc, four threads", 64 << 10, 1, true);
	threads("without a plan, four threads, four streams", 64 << 10, THREADS, false);
	threads("the same, one stream", 64 << 10, 1, false);
	through_go();
	boundaries();
	return 0;
}
