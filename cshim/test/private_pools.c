/* Stress of private pools: eight threads allocate inside and outside of pools that
 * begin, end and are released all the time, hand blocks to each other to be freed,
 * name other streams, end steps and give memory back. Every free is of a live block,
 * and every block keeps what was written into it, so the allocator has to find each
 * one and to call none unknown. STALLOC_TEST_SECONDS says how long (5). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

enum { THREADS = 8, STREAMS = 5, HELD = 60, SHARED = 64, REUSED = 4, KEPT = 8 };

static struct block *_Atomic shared[SHARED]; /* any thread frees what another left here */
static _Atomic uint64_t tags, pools;
static _Atomic uint64_t
	kept[KEPT]; /* pools that have ended and keep their memory: only so many fit */
static _Atomic bool over;

static void *stream_at(uint64_t n) { return (void *)(uintptr_t)(0x1000 * (n % STREAMS)); }

static struct block *block_new(uint64_t *dice)
{
	struct block *b = malloc(sizeof *b);
	size_t most = kit_below(dice, 100) == 0 ? 3 << 20 : 6000;
	*b = block_get(1 + kit_below(dice, most), 0, stream_at(kit_random(dice)),
		       atomic_fetch_add(&tags, 1));
	return b;
}

static void block_drop(struct block *b, uint64_t *dice)
{
	if (!b) return;
	b->stream = stream_at(kit_random(dice));
	block_free(b);
	free(b);
}

/* One private pool: blocks in it outlive its end and its release. */
static void in_pool(struct block **held, uint64_t *dice)
{
	struct kit_filter one = kit_only(stream_at(kit_random(dice)));
	uint64_t id = 1 + (kit_below(dice, 4) == 0 ? kit_below(dice, REUSED)
						   : REUSED + atomic_fetch_add(&pools, 1));
	stalloc_begin_pool(0, id, 0, kit_below(dice, 2) ? &one : NULL);
	for (uint64_t n = kit_below(dice, 40); n > 0; n--) {
		uint64_t i = kit_below(dice, HELD);
		block_drop(held[i], dice);
		held[i] = block_new(dice);
	}
	stalloc_end_pool(0, id, 0);
	uint64_t done =
		kit_below(dice, 3) != 0 ? id : atomic_exchange(&kept[kit_below(dice, KEPT)], id);
	if (done) stalloc_release_pool(0, done, 0);
}

/* What repeats, so that plans have something to hit. */
static void routine(struct block **held, uint64_t dice)
{
	for (int n = 0; n < HELD; n++) {
		block_drop(held[n], &dice);
		held[n] = block_new(&dice);
	}
}

static void *work(void *argument)
{
	uint64_t dice = (uint64_t)(uintptr_t)argument;
	struct block *held[HELD] = {0};
	while (!atomic_load(&over)) {
		uint64_t what = kit_below(&dice, 1000), i = kit_below(&dice, HELD);
		if (what < 600) {
			block_drop(held[i], &dice);
			held[i] = block_new(&dice);
		} else if (what < 850) {
			block_drop(atomic_exchange(&shared[kit_below(&dice, SHARED)], held[i]),
				   &dice);
			held[i] = NULL;
		} else if (what < 900) {
			if (held[i])
				stalloc_record_stream(held[i]->at, stream_at(kit_random(&dice)));
		} else if (what < 920) {
			routine(held, (uint64_t)(uintptr_t)argument);
		} else if (what < 940) {
			in_pool(held, &dice);
		} else if (what < 990) {
			OK(stalloc_step(-1));
		} else if (what < 993) {
			stalloc_empty_cache();
		} else {
			kit_stats();
		}
	}
	for (int n = 0; n < HELD; n++) block_drop(held[n], &dice);
	return NULL;
}

int main(void)
{
	uint64_t seed = kit_seed(), dice = seed, seconds = kit_number("STALLOC_TEST_SECONDS", 5);
	pthread_t threads[THREADS];
	kit_watchdog(60);
	kit_stderr_begin();
	for (int i = 0; i < THREADS; i++)
		threads[i] = kit_thread(work, (void *)(uintptr_t)kit_random(&dice));
	kit_sleep_ms((unsigned)seconds * 1000);
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i < SHARED; i++) block_drop(shared[i], &dice);
	OK(stalloc_step(-1));
	bool unknown = kit_stderr_end("not a live block");
	struct stalloc_stats s = kit_stats();
	printf("%llu requests, %llu hits, %llu steps, %llu plans, %llu private pools\n",
	       (ull)s.requests, (ull)s.hits, (ull)s.steps, (ull)s.plan_generation,
	       (ull)atomic_load(&pools));
	CHECK(!unknown, "a free of a live block was called a free of none");
	CHECK(s.allocated == 0 && s.blocks == 0, "at the end %llu bytes in %llu blocks",
	      (ull)s.allocated, (ull)s.blocks);
	return 0;
}
