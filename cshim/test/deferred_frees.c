/* A thread frees blocks that other streams have used, while another one asks for figures, resets
 * peaks, begins and ends private pools or empties the cache. Once both have returned, every free
 * has been performed: the engine knows no live block there. Once the first has asked for figures
 * itself it has, too, whoever performs it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "kit.h"

enum { ROUNDS = 4000 };
static pthread_barrier_t begin, end;
static void *block;
static bool over, asks; /* told by a barrier */
static _Atomic bool freed;

static void *freer(void *nothing)
{
	for (;;) {
		pthread_barrier_wait(&begin);
		if (over) return nothing;
		stalloc_free(block, 0, 0, NULL);
		if (asks) {
			struct stalloc_stats s;
			stalloc_get_stats(0, &s, sizeof s);
			CHECK(stalloc_base(block, NULL) == NULL, "a free is under way");
		}
		atomic_store(&freed, true);
		pthread_barrier_wait(&end);
	}
}

static void disturb(int what)
{
	struct stalloc_stats s;
	switch (what) {
	case 0: stalloc_get_stats(0, &s, sizeof s); break;
	case 1: stalloc_reset_peak(0); break;
	case 2: stalloc_begin_pool(0, 7, 7, NULL), stalloc_end_pool(0, 7, 7); break;
	case 3: stalloc_release_pool(0, 7, 7); break;
	default: stalloc_empty_cache(); break;
	}
}

int main(void)
{
	kit_watchdog(60);
	pthread_barrier_init(&begin, NULL, 2);
	pthread_barrier_init(&end, NULL, 2);
	pthread_t thread = kit_thread(freer, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		block = kit_get(3 << 20, 0, NULL);
		stalloc_record_stream(block, (void *)0x1000);
		atomic_store(&freed, false);
		asks = i % 2;
		pthread_barrier_wait(&begin);
		do disturb(i % 5);
		while (!atomic_load(&freed));
		pthread_barrier_wait(&end);
		CHECK(stalloc_base(block, NULL) == NULL,
		      "round %d: a free was left to whoever comes next", i);
		kit_progress();
	}
	over = true;
	pthread_barrier_wait(&begin);
	pthread_join(thread, NULL);
	puts("deferred_frees: all were performed");
	return 0;
}
