/* The pool without a plan, and with plans that come and go: threads ask for blocks
 * of a few sizes over and over and free them in any order, so that most requests are
 * served from what was just freed, without the engine. Two threads share a stream,
 * blocks are freed by other threads, by the name of another stream, after other
 * streams used them and (wrongly) twice; boundaries, statistics and emptied caches
 * come in between. Every block carries a pattern.
 * STALLOC_TEST_SECONDS says how long (2). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

/* A busy machine serves few in the time. */
enum { THREADS = 6, STREAMS = 3, LIVE = 48, SIZES = 10, LOOPS = 8, LEAST = 2000 };
static const size_t sizes[SIZES] = {
	512,	 700,	 4096, 4096 + 512, 100000, 1 << 20, (1 << 20) + 512, (2 << 20) + 512,
	3 << 20, 9 << 20};

static struct reaper reaper;
static _Atomic bool over;
static _Atomic uint64_t served;

static void *stream_no(int n) { return (void *)(uintptr_t)(0x1000 * (n % STREAMS)); }

struct worker {
	pthread_t thread;
	uint64_t random, id, sequence;
	struct block live[LIVE];
	int stream;
};

static struct block request(struct worker *w, size_t size)
{
	atomic_fetch_add_explicit(&served, 1, memory_order_relaxed);
	return block_get(size, 0, stream_no(w->stream), w->id << 40 | ++w->sequence);
}

static void release(struct worker *w, struct block b)
{
	uint64_t dice = kit_below(&w->random, 1000);
	if (dice < 10) stalloc_record_stream(b.at, stream_no(w->stream + 1));
	if (dice < 100) {
		reaper_post(&reaper, b, false);
		return;
	}
	if (dice < 110) b.stream = stream_no(w->stream + 1); /* which is not its own */
	block_free(&b);
}

/* The same few requests several times, as layers make them. */
static void layers(struct worker *w)
{
	struct block held[4];
	size_t size[4];
	for (int i = 0; i < 4; i++) size[i] = sizes[kit_below(&w->random, SIZES)];
	for (int n = 0; n < LOOPS; n++) {
		for (int i = 0; i < 4; i++) held[i] = request(w, size[i]);
		for (int i = 0; i < 4; i++) block_free(&held[i]);
	}
}

static void *work(void *argument)
{
	struct worker *w = argument;
	while (!atomic_load(&over)) {
		struct block *b = &w->live[kit_below(&w->random, LIVE)];
		uint64_t dice = kit_below(&w->random, 1000);
		if (dice < 50) layers(w);
		if (dice >= 998) stalloc_empty_cache();
		if (b->at) release(w, *b);
		*b = (struct block){0};
		if (dice % 8 != 0) *b = request(w, sizes[kit_below(&w->random, SIZES)]);
	}
	for (int i = 0; i < LIVE; i++)
		if (w->live[i].at) release(w, w->live[i]);
	return NULL;
}

/* Blocks freed twice while nothing else happens: the second free changes nothing,
 * also when the first is known to the fast path alone. */
static void twice(void)
{
	void *stream = stream_no(1), *a, *b;
	for (int i = 0; i < 100; i++) {
		size_t size = sizes[i % SIZES];
		a = stalloc_malloc(size, 0, stream);
		struct stalloc_stats before = kit_stats();
		stalloc_free(a, 0, 0, stream);
		stalloc_free(a, 0, 0, stream);
		stalloc_free(a, 0, 0, stream_no(2));
		struct stalloc_stats after = kit_stats();
		CHECK(before.blocks - after.blocks == 1, "%lld blocks were counted out",
		      (long long)(before.blocks - after.blocks));
		a = stalloc_malloc(size, 0, stream);
		b = stalloc_malloc(size, 0, stream);
		CHECK(a && b && a != b, "the same block was handed out twice");
		stalloc_free(a, 0, 0, stream);
		stalloc_free(b, 0, 0, stream);
	}
}

static void consistent(void)
{
	struct stalloc_stats s = kit_stats();
	CHECK(s.requested <= s.allocated && s.allocated <= s.reserved,
	      "requested %llu, allocated %llu, reserved %llu", (ull)s.requested,
	      (ull)s.allocated, (ull)s.reserved);
}

int main(void)
{
	double seconds = (double)kit_number("STALLOC_TEST_SECONDS", 2), start = kit_seconds();
	uint64_t seed = kit_seed();
	static struct worker workers[THREADS];
	kit_watchdog(30);
	reaper_start(&reaper);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.random = kit_random(&seed), .id = (uint64_t)i + 1, .stream = i};
		workers[i].thread = kit_thread(work, &workers[i]);
	}
	while (kit_seconds() - start < seconds || atomic_load(&served) < LEAST) {
		kit_sleep_ms(3);
		OK(stalloc_step(-1));
		kit_stats();
		if (kit_below(&seed, 100) == 0) OK(stalloc_reset_peak(0));
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
	reaper_stop(&reaper);
	consistent();
	twice();
	OK(stalloc_step(-1));
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0 && s.blocks == 0 && s.requested == 0,
	      "at the end %llu bytes in %llu blocks", (ull)s.allocated, (ull)s.blocks);
	stalloc_empty_cache();
	printf("%.0f s, %d threads, %d streams: %llu requests, %llu steps, %llu plans\n", seconds,
	       THREADS, STREAMS, (ull)atomic_load(&served), (ull)s.steps, (ull)s.plan_generation);
	return 0;
}
