/* Stress: 24 threads, 8 streams, steps that end anywhere, programs that drift,
 * so that plans are replaced every few milliseconds under everything else.
 *
 * 20 threads play, 4 free what others allocated. A stream has two or three
 * players, which meet at its lock; a boundary comes every millisecond or so,
 * wherever they are. At times all players pause at a boundary and go on with
 * the same programs for a while, so that plans are hit as well.
 * STALLOC_TEST_SECONDS says how long (60). */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

enum { PLAYERS = 20, REAPERS = 4, STREAMS = 8, SHORT = 24 };

static struct player players[PLAYERS];
static struct reaper reapers[REAPERS];
static _Atomic uint64_t epoch; /* of the programs */
static _Atomic bool calm;      /* players 0 to 7 play alone, one a stream, in step with the boundaries */
static _Atomic bool over;
static pthread_barrier_t begin, middle, end;
static uint64_t seed, dice; /* dice: the main thread's */

static uint64_t seed_of(int stream, uint64_t at) { return seed + at * 1000 + (uint64_t)stream; }

static void *play(void *argument)
{
	struct player *p = argument;
	struct program program = {0};
	int me = (int)(p - players);
	uint64_t mine = UINT64_MAX;
	p->program = &program;
	for (;;) {
		bool quiet = atomic_load(&calm);
		if (quiet) pthread_barrier_wait(&begin);
		if (atomic_load(&over)) break;
		uint64_t now = atomic_load(&epoch);
		if (now != mine) {
			program_drop(&program);
			program = program_make(seed_of(me % STREAMS, now), SHORT, (size_t)48 << 20);
			mine = now;
		}
		p->habits = quiet ? (struct habits){.cross = 50, .wait = true}
				  : (struct habits){.noise = 10, .cross = 100, .shared = 5};
		if (!quiet || me < STREAMS) {
			player_first_half(p);
			if (quiet) pthread_barrier_wait(&middle);
			player_second_half(p);
		}
		if (quiet) pthread_barrier_wait(&end);
	}
	player_end(p);
	program_drop(&program);
	return NULL;
}

/* Boundaries at any time, for a while. */
static void storm(double seconds)
{
	for (double until = kit_seconds() + seconds; kit_seconds() < until;) {
		atomic_fetch_add(&epoch, kit_below(&dice, 8) == 0);
		CHECK(stalloc_step(-1) == STALLOC_OK, "%s", stalloc_last_error());
		if (kit_below(&dice, 50) == 0) stalloc_empty_cache();
		kit_sleep_ms(1);
	}
}

/* The time is up and a plan has served. Where the machine gives little time that takes
 * longer, and is a failure only after two minutes more. */
static bool enough(double until, struct stalloc_stats s)
{
	double over = kit_seconds() - until;
	return over > 0 && ((s.plan_generation > 1 && s.hits > 0) || over > 120);
}

/* Steps as a training loop makes them. At first many alike: they make the planner
 * forget the storm. Then another program as soon as the last one's plan served a
 * step. */
static void lull(int changes, double until)
{
	struct stalloc_stats before = kit_stats(), now;
	int steps = 0, alike = 40;
	atomic_store(&calm, true);
	do {
		pthread_barrier_wait(&begin);
		steps++;
		if (changes == 0) atomic_store(&calm, false);
		pthread_barrier_wait(&end);
		now = kit_stats();
		CHECK(stalloc_step(-1) == STALLOC_OK, "%s", stalloc_last_error());
		bool good = now.misses == before.misses && now.hits > before.hits;
		before = now;
		if (enough(until, now)) {
			changes = 0;
			continue;
		}
		if (alike > 0 && good) alike--;
		if (alike > 0 ? steps < 200 : !good && steps < 40) continue;
		atomic_fetch_add(&epoch, 1);
		alike = steps = 0;
		changes--;
	} while (atomic_load(&calm));
}

struct crowd {
	int threads, goroutines;
};

static struct crowd crowd(void)
{
	int (*goroutines)(void);
	*(void **)&goroutines = kit_symbol("engine", "stalloc_engine_goroutines");
	return (struct crowd){kit_threads(), goroutines()};
}

static void finish(pthread_t *threads)
{
	atomic_store(&calm, true);
	atomic_store(&over, true);
	pthread_barrier_wait(&begin);
	for (int i = 0; i < PLAYERS; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i < REAPERS; i++) reaper_stop(&reapers[i]);
	for (int i = 0; i < PLAYERS; i++)
		CHECK(players[i].failed == 0, "player %d: %llu requests were refused", i,
		      (unsigned long long)players[i].failed);
	CHECK(stalloc_step(-1) == STALLOC_OK, "%s", stalloc_last_error());
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0 && s.blocks == 0, "at the end %llu bytes in %llu blocks",
	      (unsigned long long)s.allocated, (unsigned long long)s.blocks);
}

int main(void)
{
	double seconds = (double)kit_number("STALLOC_TEST_SECONDS", 60), start = kit_seconds();
	pthread_t threads[PLAYERS];
	struct crowd early = {0};
	setenv("STALLOC_TEST_LARGEST", "1048576", 0); /* many requests rather than large ones */
	seed = dice = kit_seed();
	kit_watchdog(30);
	pthread_barrier_init(&begin, NULL, PLAYERS + 1);
	pthread_barrier_init(&middle, NULL, STREAMS);
	pthread_barrier_init(&end, NULL, PLAYERS + 1);
	for (int i = 0; i < REAPERS; i++) reaper_start(&reapers[i]);
	for (int i = 0; i < PLAYERS; i++) {
		players[i] = (struct player){.stream = (void *)(uintptr_t)(0x1000 * (i % STREAMS)),
					     .other = (void *)(uintptr_t)(0x1000 * ((i + 1) % STREAMS)),
					     .reapers = reapers,
					     .reaper_count = REAPERS,
					     .random = kit_random(&dice),
					     .id = (uint64_t)i + 1};
		CHECK(pthread_create(&threads[i], NULL, play, &players[i]) == 0, "no thread");
	}
	while (!enough(start + seconds, kit_stats())) {
		storm(0.1 + (double)kit_below(&dice, 200) / 1000);
		lull(30 + (int)kit_below(&dice, 60), start + seconds);
		if (!early.threads) early = crowd();
	}
	struct crowd late = crowd();
	struct stalloc_stats s = kit_stats();
	finish(threads);
	double spent = kit_seconds() - start;
	printf("%.0f s, %d threads, %d streams: %llu requests, %.1f %% hits, %llu steps, %llu plans (one every %.1f ms), "
	       "threads %d then %d, goroutines %d then %d\n",
	       spent, PLAYERS + REAPERS, STREAMS, (unsigned long long)s.requests, 100 * (double)s.hits / (double)s.requests,
	       (unsigned long long)s.steps, (unsigned long long)s.plan_generation,
	       1000 * spent / (double)s.plan_generation, early.threads, late.threads, early.goroutines, late.goroutines);
	CHECK(s.plan_generation > 1 && s.hits > 0, "no plan was served");
	CHECK(late.threads <= early.threads + 8, "%d threads became %d", early.threads, late.threads);
	CHECK(late.goroutines <= early.goroutines + 4, "%d goroutines became %d", early.goroutines, late.goroutines);
	return 0;
}
