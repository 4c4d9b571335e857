/* Private pools that begin, end and are released while other threads allocate: a request that
 * chose a pool before it was released does not make its memory private for good. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "kit.h"

enum { THREADS = 6, ROUNDS = 1000, BLOCKS = 5 };
static const size_t size = 1 << 20;
static _Atomic bool over;

static void *work(void *stream)
{
	while (!atomic_load(&over)) {
		void *p = kit_get(size, 0, stream);
		stalloc_free(p, 0, 0, stream);
	}
	return NULL;
}

static void *get_in(const uint64_t id[2])
{
	stalloc_begin_pool(0, id[0], id[1], NULL);
	void *p = kit_get(size, 0, NULL);
	stalloc_end_pool(0, id[0], id[1]);
	return p;
}

/* Ids of all 64 bits: each is a pool of its own, whose memory goes back when it is released. */
static void large_ids(void)
{
	static const uint64_t ids[][2] = {
		{1, 5},
		{1ull << 30, 5},
		{1ull << 31, 5},
		{1ull << 32, 0},
		{1ull << 32 | 1, 5},
		{1, 1ull << 32 | 5},
		{UINT64_MAX, UINT64_MAX},
	};
	enum { IDS = sizeof ids / sizeof *ids };
	void *first[IDS];
	stalloc_empty_cache();
	uint64_t before = kit_stats().reserved;
	for (int i = 0; i < IDS; i++) {
		first[i] = get_in(ids[i]);
		for (int k = 0; k < i; k++)
			CHECK(first[i] != first[k], "pools %d and %d share memory", k, i);
		stalloc_free(first[i], 0, 0, NULL);
	}
	for (int i = 0; i < IDS; i++) {
		uint64_t held = kit_stats().reserved;
		stalloc_release_pool(0, ids[i][0], ids[i][1]);
		CHECK(kit_stats().reserved < held, "pool %d keeps what it had", i);
	}
	CHECK(kit_stats().reserved == before, "%llu of %llu",
	      (ull)kit_stats().reserved, (ull)before);
}

int main(void)
{
	pthread_t threads[THREADS];
	kit_watchdog(60);
	stalloc_free(stalloc_malloc(1, 0, NULL), 0, 0, NULL);
	large_ids();
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = kit_thread(work, (void *)(0x1000 * (i + 1)));
	for (uint64_t i = 0; i < ROUNDS; i++) {
		stalloc_begin_pool(0, 10 + i, 0, NULL);
		for (int k = 0; k < BLOCKS; k++)
			stalloc_free(stalloc_malloc(size, 0, NULL), 0, 0, NULL);
		stalloc_end_pool(0, 10 + i, 0);
		stalloc_release_pool(0, 10 + i, 0);
		kit_progress();
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++) stalloc_step(-1);
	CHECK(stalloc_pools_held(0, NULL, 0) == 0, "%zu of the pools hold memory",
	      stalloc_pools_held(0, NULL, 0));
	kit_nothing_left("pools that were released");
	puts("released: none was lost");
	return 0;
}
