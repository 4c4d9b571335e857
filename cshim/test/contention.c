/* Contention for one device's lock: threads on four streams, then on one, and two of the lowest
 * priority among them, which hold the lock while they do not run. They free each other's
 * blocks, too. Meanwhile Go has the lock for as long as it takes to give memory back, private
 * pools begin and end, so that nobody owns the lock for long, and somebody asks for
 * statistics. Nobody may wait for ever, no two blocks share a byte, and no request or free be
 * counted twice or not at all. STALLOC_TEST_SECONDS says how long (2). */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

enum { THREADS = 8, IDLE = 2, HELD = 32, SHARED = 16 };

struct worker {
	pthread_t thread;
	uint64_t id, random, requests;
	void *stream;
};

static _Atomic(struct block *) shared[SHARED]; /* any thread frees what another left here */
static _Atomic bool over;

/* Leaves a block to the others, and frees what one of them has left. */
static void exchange(uint64_t place, struct block *b)
{
	struct block *mine = b ? malloc(sizeof *mine) : NULL;
	if (mine) *mine = *b;
	struct block *other = atomic_exchange(&shared[place], mine);
	if (other) block_free(other);
	free(other);
}

static void *work(void *argument)
{
	struct worker *v = argument;
	struct block held[HELD] = {{0}};
	if (v->id < IDLE)
		pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
	while (!atomic_load(&over)) {
		struct block *b = &held[kit_below(&v->random, HELD)];
		if (b->at) block_free(b);
		*b = block_get(1 + kit_below(&v->random, 300000), 0, v->stream,
			       v->id << 48 | v->requests++);
		for (uint64_t i = kit_below(&v->random, 8) ? 0 : 300; i > 0;
		     i--, v->requests++) /* enough to own the lock */
			stalloc_free(stalloc_malloc(512, 0, v->stream), 512, 0, v->stream);
		if (kit_below(&v->random, 4)) continue;
		exchange(kit_below(&v->random, SHARED), b);
		b->at = NULL;
	}
	for (int i = 0; i < HELD; i++)
		if (held[i].at) block_free(&held[i]);
	return NULL;
}

static uint64_t contend(uint64_t *dice, int streams, double seconds)
{
	struct worker workers[THREADS];
	uint64_t requests = 0;
	atomic_store(&over, false);
	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.id = i,
			.random = kit_random(dice),
			.stream = (void *)(uintptr_t)(0x1000 * (i % (uint64_t)streams + 1))};
		workers[i].thread = kit_thread(work, &workers[i]);
	}
	for (double until = kit_seconds() + seconds; kit_seconds() < until;) {
		switch (kit_below(dice, 4)) {
		case 0:
			stalloc_empty_cache();
			break;
		case 1:
			stalloc_begin_pool(0, 7, 7, NULL);
			stalloc_end_pool(0, 7, 7);
			break;
		case 2:
			OK(stalloc_step(0));
			break;
		default:
			CHECK(kit_stats().blocks <= THREADS * (HELD + 2) + SHARED,
			      "more blocks live than the program has");
		}
		kit_sleep_ms(1);
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		requests += workers[i].requests;
	}
	for (uint64_t i = 0; i < SHARED; i++) exchange(i, NULL);
	return requests;
}

int main(void)
{
	double seconds = (double)kit_number("STALLOC_TEST_SECONDS", 2) / 2;
	uint64_t dice = kit_seed();
	kit_watchdog(30);
	uint64_t requests = contend(&dice, 4, seconds);
	requests += contend(&dice, 1, seconds);
	stalloc_step(0);
	struct stalloc_stats s = kit_stats();
	printf("%d threads: %llu requests, %llu steps\n", THREADS, (ull)requests, (ull)s.steps);
	CHECK(s.requests == requests, "%llu requests counted of %llu",
	      (ull)s.requests, (ull)requests);
	CHECK(s.blocks == 0 && s.allocated == 0 && s.requested == 0 &&
		      s.freed_total == s.allocated_total,
	      "at the end %llu bytes in %llu blocks", (ull)s.allocated, (ull)s.blocks);
	return 0;
}
