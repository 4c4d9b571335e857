/* What stalloc.h says about blocks of a plan: where one begins, what a second free of one
 * does while another stream uses it, and that there may be any number of arenas. Run with
 * plan:always. */
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

enum { N = 8, STREAMS = 300, OF_STREAM = 3 };
static void *const mine = (void *)0x1000, *const other = (void *)0x2000;

static size_t size_of(int i) { return 100000u * (size_t)(i + 1) + 7; }

static uint64_t rounded(size_t n) { return (n + 511) / 512 * 512; }

static void request(void **blocks)
{
	for (int i = 0; i < N; i++) blocks[i] = kit_get(size_of(i), 0, mine);
}

static void release(void **blocks)
{
	for (int i = 0; i < N; i++)
		if (blocks[i]) stalloc_free(blocks[i], 0, 0, mine);
}

/* Plays steps until one is served from a plan, and leaves the blocks of the next live. */
static void learn(void **blocks)
{
	unsigned waited = 0;
	for (int step = 0;; step++) {
		uint64_t hits = kit_stats().hits;
		request(blocks);
		if (kit_stats().hits == hits + N) return;
		release(blocks);
		OK(stalloc_step(0));
		if (step > 20) kit_wait(&waited, 2, "a plan"); /* the planner has its own thread */
	}
}

/* Every byte of a block knows the block; the byte after it does not. */
static void has_base(char *p, size_t asked)
{
	const size_t at[] = {0, 1, 511, 512, asked / 2, asked - 1};
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		size_t size = 0;
		void *base = stalloc_base(p + at[i], &size);
		CHECK(base == p && size == rounded(asked), "at %zu of %zu: base %p of %p, size %zu",
		      at[i], asked, base, (void *)p, size);
	}
	CHECK(stalloc_base(p + asked / 2, NULL) == p, "without a size");
	CHECK(stalloc_base(p + rounded(asked), NULL) != p, "the block goes on after its end");
}

static void bases(void **blocks)
{
	char *pooled = stalloc_malloc(3000001, 0, other);
	for (int i = 0; i < N; i++) has_base(blocks[i], size_of(i));
	has_base(pooled, 3000001);
	stalloc_free(pooled, 0, 0, other);
	CHECK(!stalloc_base(pooled, NULL) && !stalloc_base(pooled + 1000, NULL),
	      "a freed block has a base");
	stalloc_free(blocks[3], 0, 0, mine);
	CHECK(!stalloc_base(blocks[3], NULL) && !stalloc_base((char *)blocks[3] + 1000, NULL),
	      "a freed slot has a base");
	blocks[3] = NULL;
}

/* Another stream's work is pending when the block is freed, twice. */
static void freed_twice(void **blocks)
{
	char *p = blocks[5];
	struct stalloc_stats before = kit_stats(), s;
	stalloc_record_stream(p, other);
	stalloc_free(p, 0, 0, mine);
	stalloc_free(p, 0, 0, mine);
	stalloc_free(p, 0, 0, mine);
	blocks[5] = NULL;
	s = kit_stats();
	CHECK(s.blocks == before.blocks - 1, "%llu blocks of %llu", (ull)s.blocks,
	      (ull)before.blocks);
	CHECK(s.allocated == before.allocated - rounded(size_of(5)), "%llu bytes",
	      (ull)s.allocated);
	CHECK(s.active == before.active, "%llu bytes are active of %llu",
	      (ull)s.active, (ull)before.active);
	CHECK(!stalloc_base(p, NULL), "a freed slot has a base");
	release(blocks);
	int pending = 0;
	for (; kit_stats().active > kit_stats().allocated; pending++) {
		CHECK(pending < 10000, "the block never comes free");
		OK(stalloc_step(0));
		request(blocks);
		if (kit_stats().active > kit_stats().allocated)
			for (int i = 0; i < N; i++)
				CHECK(p >= (char *)blocks[i] + size_of(i) ||
					      (char *)blocks[i] >= p + size_of(5),
				      "handed out while another stream used it");
		release(blocks);
	}
	CHECK(pending > 3, "the other stream was done at once");
}

static void many_arenas(void)
{
	void *blocks[STREAMS][OF_STREAM];
	uint64_t served = 0;
	unsigned waited = 0;
	for (int step = 0; served < STREAMS * OF_STREAM; step++) {
		uint64_t hits = kit_stats().hits;
		for (int i = 0; i < STREAMS; i++)
			for (int j = 0; j < OF_STREAM; j++) {
				blocks[i][j] =
					stalloc_malloc(4096u * (size_t)(j + 1), 0,
						       (void *)(uintptr_t)(0x10000 + i * 16));
				CHECK(blocks[i][j], "%s", stalloc_last_error());
			}
		served = kit_stats().hits - hits;
		for (int i = 0; i < STREAMS; i++)
			for (int j = 0; j < OF_STREAM; j++) stalloc_free(blocks[i][j], 0, 0, NULL);
		CHECK(stalloc_step(0) == STALLOC_OK, "step %d: %s", step, stalloc_last_error());
		if (step > 20) kit_wait(&waited, 2, "a plan for all streams");
	}
}

int main(void)
{
	void *blocks[N];
	setenv("FAKECUDA_EVENT_DELAY", "40", 1);
	kit_watchdog(120);
	learn(blocks);
	bases(blocks);
	release(blocks);
	stalloc_step(0);
	learn(blocks);
	kit_progress();
	freed_twice(blocks);
	kit_progress();
	many_arenas();
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0 && s.blocks == 0 && s.active == 0,
	      "at the end %llu bytes in %llu blocks", (ull)s.allocated, (ull)s.blocks);
	puts("planned: all as documented");
	return 0;
}
