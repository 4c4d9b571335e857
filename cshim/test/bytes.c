/* The byte check: threads play steps on several streams, every block carries a
 * pattern of its own that is checked before the free, and the plans must be hit.
 *
 * Phases follow one another in one process: regular steps, then noise over the
 * same plan; regular steps with frees by other threads, then blocks used by other
 * streams; and programs that change every few steps, so that plans come and go
 * under the threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

enum { THREADS = 4, STREAMS = 8, REAPERS = 2 };

static struct program programs[STREAMS];
static struct player players[STREAMS];
static struct reaper reapers[REAPERS];
static pthread_barrier_t begin, middle, end;
static bool over;

static void *work(void *argument)
{
	int me = (int)(intptr_t)argument;
	for (;;) {
		pthread_barrier_wait(&begin);
		if (over) return NULL;
		for (int s = me; s < STREAMS; s += THREADS) player_first_half(&players[s]);
		pthread_barrier_wait(&middle);
		for (int s = me; s < STREAMS; s += THREADS) player_second_half(&players[s]);
		pthread_barrier_wait(&end);
	}
}

struct outcome {
	uint64_t requests, hits, misses;
};

static struct outcome play_one(void)
{
	struct stalloc_stats before = kit_stats();
	pthread_barrier_wait(&begin);
	pthread_barrier_wait(&end);
	struct stalloc_stats now = kit_stats();
	OK(stalloc_step(-1));
	return (struct outcome){now.requests - before.requests, now.hits - before.hits,
				now.misses - before.misses};
}

static void new_programs(uint64_t *seed, int slots)
{
	for (int s = 0; s < STREAMS; s++) {
		program_drop(&programs[s]);
		programs[s] = program_make(kit_random(seed), slots, (size_t)48 << 20);
	}
}

static void set_rates(struct rates h)
{
	for (int s = 0; s < STREAMS; s++) players[s].rates = h;
}

static void consistent(const char *phase)
{
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated_total - s.freed_total == s.allocated, "%s: %llu - %llu is not %llu",
	      phase, (ull)s.allocated_total, (ull)s.freed_total, (ull)s.allocated);
	CHECK(s.hits + s.misses <= s.requests, "%s: %llu hits and %llu misses of %llu requests",
	      phase, (ull)s.hits, (ull)s.misses, (ull)s.requests);
	CHECK(s.allocated <= s.peak_allocated && s.requested <= s.allocated &&
		      s.allocated <= s.active,
	      "%s: allocated %llu, peak %llu, requested %llu, active %llu", phase,
	      (ull)s.allocated, (ull)s.peak_allocated, (ull)s.requested, (ull)s.active);
	CHECK(s.peak_reserved >= s.reserved && s.reserved >= s.allocated,
	      "%s: reserved %llu, peak %llu, allocated %llu", phase, (ull)s.reserved,
	      (ull)s.peak_reserved, (ull)s.allocated);
}

/* Plays until a step is served from a plan as well as asked for, then counts. How the threads'
 * steps lie to each other is up to the machine. A stream that finds its planned bytes taken is
 * served without a plan until the step ends, an eighth of the requests at most, and again in the
 * next steps until it is planned anew. That may happen to several streams, but not to half. */
static void regular(const char *name, struct rates h, uint64_t *seed, int steps, double least)
{
	struct outcome o, sum = {0};
	int tries = 0;
	unsigned waited = 0;
	new_programs(seed, 60);
	set_rates(h);
	do {
		o = play_one();
		kit_wait(&waited, 5, name); /* the planner works beside the steps */
		tries++;
	} while (o.requests == 0 || (double)o.hits < least * (double)o.requests);
	for (int i = 0; i < steps; i++) {
		o = play_one();
		sum.requests += o.requests;
		sum.hits += o.hits;
		sum.misses += o.misses;
	}
	consistent(name);
	printf("%-10s %7llu requests, %6.2f %% hits, plan %llu, hit after %d steps\n", name,
	       (ull)sum.requests, 100 * (double)sum.hits / (double)sum.requests,
	       (ull)kit_stats().plan_generation, tries);
	CHECK(2 * sum.hits > sum.requests,
	      "%s: %llu of %llu requests hit", name, (ull)sum.hits, (ull)sum.requests);
}

/* What hits is up to the planner, which gives up plans that do not pay: here only
 * the bytes count. The programs change every so many steps, 0: they stay as they
 * are, and then their plan must be hit for a while at least. */
static void irregular(const char *name, struct rates h, uint64_t *seed, int steps, int change)
{
	struct stalloc_stats first = kit_stats();
	set_rates(h);
	for (int i = 0; i < steps; i++) {
		if (change && i % change == 0) new_programs(seed, 30 + (int)kit_below(seed, 60));
		play_one();
		if (i % 3 == 0) kit_sleep_ms(2);
	}
	consistent(name);
	struct stalloc_stats now = kit_stats();
	printf("%-10s %7llu requests, %6.2f %% hits, plan %llu\n", name,
	       (ull)(now.requests - first.requests),
	       100 * (double)(now.hits - first.hits) / (double)(now.requests - first.requests),
	       (ull)now.plan_generation);
	CHECK(change || now.hits > first.hits, "%s: nothing hit", name);
}

int main(void)
{
	uint64_t seed = kit_seed(), steps = kit_number("STALLOC_TEST_STEPS", 20);
	pthread_t threads[THREADS];
	kit_watchdog(60);
	pthread_barrier_init(&begin, NULL, THREADS + 1);
	pthread_barrier_init(&middle, NULL, THREADS);
	pthread_barrier_init(&end, NULL, THREADS + 1);
	for (int i = 0; i < REAPERS; i++) reaper_start(&reapers[i]);
	for (int s = 0; s < STREAMS; s++)
		players[s] = (struct player){
			.program = &programs[s],
			.stream = (void *)(uintptr_t)(s == 0 ? 0 : 0x1000 * s),
			.other = (void *)(uintptr_t)(s == 1 ? 0
							    : 0x1000 * (s == STREAMS - 1 ? 1
											 : s + 1)),
			.reapers = reapers,
			.reaper_count = REAPERS,
			.random = kit_random(&seed),
			.id = (uint64_t)s + 1};
	for (int i = 0; i < THREADS; i++) threads[i] = kit_thread(work, (void *)(intptr_t)i);

	regular("regular", (struct rates){0}, &seed, (int)steps, 0.95);
	irregular("noisy", (struct rates){.noise = 10, .cross = 100, .shared = 5}, &seed,
		  (int)steps, 0);
	regular("crossing", (struct rates){.cross = 200, .wait = true}, &seed, (int)steps, 0.95);
	irregular("shared", (struct rates){.shared = 30, .cross = 100}, &seed, (int)steps, 0);
	irregular("changing", (struct rates){.noise = 5, .cross = 100, .shared = 5}, &seed,
		  (int)steps * 3, 4);

	over = true;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i < REAPERS; i++) reaper_stop(&reapers[i]);
	for (int s = 0; s < STREAMS; s++) {
		CHECK(players[s].failed == 0, "stream %d: %llu requests were refused: %s", s,
		      (ull)players[s].failed, stalloc_last_error());
		player_end(&players[s]);
		program_drop(&programs[s]);
	}
	OK(stalloc_step(-1));
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0 && s.requested == 0 && s.blocks == 0,
	      "at the end %llu bytes in %llu blocks (%llu asked for)", (ull)s.allocated,
	      (ull)s.blocks, (ull)s.requested);
	stalloc_empty_cache();
	consistent("the end");
	return 0;
}
