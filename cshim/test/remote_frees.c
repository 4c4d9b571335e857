/* Frees from other threads beside requests of the blocks' stream: none may be lost, however
 * many come at once, and what they free is there for the next request. The device is hardly
 * larger than what lives in a step. Run with plan:always. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

enum { FREERS = 2, BLOCKS = 500, MISSES = 40, UNTIL = 20, ROUNDS = 12, MIB = 1 << 20 };

static void *blocks[BLOCKS];
static pthread_barrier_t begin, end;
static bool over; /* told by a barrier */
static const size_t whole = (size_t)88 * MIB;

static size_t size_of(int i) { return (size_t)(2 + i % 3) * 40960; }

static void *freer(void *argument)
{
	for (int first = (int)(uintptr_t)argument;;) {
		pthread_barrier_wait(&begin);
		if (over) return NULL;
		for (int i = first; i < BLOCKS; i += FREERS) stalloc_free(blocks[i], 0, 0, NULL);
		pthread_barrier_wait(&end);
	}
}

/* Requests that the plan does not know, while the frees come. */
static void misses(int step)
{
	void *at[MISSES];
	for (int i = 0; i < MISSES; i++) {
		if (i == UNTIL) pthread_barrier_wait(&begin);
		at[i] = stalloc_malloc((size_t)(5 * MIB + 4096 * i + 512 * (step % 8)), 0, NULL);
		CHECK(at[i], "%s", stalloc_last_error());
		if (i >= 2) stalloc_free(at[i - 2], 0, 0, NULL);
	}
	stalloc_free(at[MISSES - 2], 0, 0, NULL);
	stalloc_free(at[MISSES - 1], 0, 0, NULL);
}

int main(void)
{
	pthread_t threads[FREERS];
	int rounds = 0, served = 0;
	unsigned waited = 0;
	setenv("FAKECUDA_CAPACITY", "100663296", 1);
	kit_watchdog(60);
	pthread_barrier_init(&begin, NULL, FREERS + 1);
	pthread_barrier_init(&end, NULL, FREERS + 1);
	for (uintptr_t i = 0; i < FREERS; i++) threads[i] = kit_thread(freer, (void *)i);
	for (int step = 0; rounds < ROUNDS; step++) {
		struct stalloc_stats before = kit_stats(), s;
		for (int i = 0; i < BLOCKS; i++) blocks[i] = kit_get(size_of(i), 0, NULL);
		s = kit_stats();
		bool hit = s.hits - before.hits > BLOCKS / 2;
		served += hit;
		if (hit && served % 2 == 0) {
			misses(step);
			pthread_barrier_wait(&end);
			/* Needs nearly all of the device: what was freed must be found. */
			void *all = kit_get(whole, 0, NULL);
			stalloc_free(all, 0, 0, NULL);
			rounds++;
		} else {
			for (int i = 0; i < BLOCKS; i++) stalloc_free(blocks[i], 0, 0, NULL);
		}
		OK(stalloc_step(0));
		s = kit_stats();
		CHECK(s.allocated == 0 && s.blocks == 0,
		      "step %d: all was freed, %llu bytes in %llu blocks stay", step,
		      (ull)s.allocated, (ull)s.blocks);
		if (!hit) kit_wait(&waited, 2, "a plan");
		kit_progress();
	}
	over = true;
	pthread_barrier_wait(&begin);
	for (int i = 0; i < FREERS; i++) pthread_join(threads[i], NULL);
	puts("remote_frees: none was lost");
	return 0;
}
