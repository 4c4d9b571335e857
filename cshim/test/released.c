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
		void *p = stalloc_malloc(size, 0, stream);
		CHECK(p, "%s", stalloc_last_error());
		stalloc_free(p, 0, 0, stream);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	kit_watchdog(60);
	stalloc_free(stalloc_malloc(1, 0, NULL), 0, 0, NULL);
	for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(0x1000 * (i + 1))) == 0, "no thread");
	for (uint64_t i = 0; i < ROUNDS; i++) {
		stalloc_begin_pool(0, 10 + i, 0, NULL);
		for (int k = 0; k < BLOCKS; k++) stalloc_free(stalloc_malloc(size, 0, NULL), 0, 0, NULL);
		stalloc_end_pool(0, 10 + i, 0);
		stalloc_release_pool(0, 10 + i, 0);
		kit_progress();
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i < 3; i++) stalloc_step(-1);
	stalloc_empty_cache();
	struct stalloc_stats s = kit_stats();
	CHECK(s.blocks == 0 && s.reserved == 0, "%llu blocks, %llu bytes are held for pools that were released", (unsigned long long)s.blocks,
	      (unsigned long long)s.reserved);
	puts("released: none was lost");
	return 0;
}
