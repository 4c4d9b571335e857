/* What uses a private pool: several graphs, captures that fail, a program's MemPool. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static const size_t MiB = 1 << 20;
static void *const stream = (void *)0x1000;

static void begin(uint64_t id, int graph)
{
	struct kit_filter one = kit_only(stream);
	stalloc_begin_pool(0, id, 0, &one);
	stalloc_pool_purpose(0, id, 0, stream, graph);
	if (graph) CHECK(fake(capture_begin)(stream) >= 0, "no capture");
}

static void *get(size_t size, void *on)
{
	return kit_get(size, 0, on);
}

static void end(uint64_t id)
{
	CHECK(fake(capture_end)(stream) == 1, "the capture was invalidated");
	stalloc_end_pool(0, id, 0);
}

/* Two graphs of one pool: the first one's end leaves the memory to the second. */
static void graphs_share(void)
{
	begin(1, 1);
	char *a = get(80 * MiB, stream);
	stalloc_free(a, 0, 0, stream);
	end(1);
	begin(1, 1);
	CHECK(get(80 * MiB, stream) == (void *)a, "the second graph has other memory");
	stalloc_free(a, 0, 0, stream);
	end(1);
	CHECK(stalloc_pool_uses(0, 1, 0) == 2, "%d uses", stalloc_pool_uses(0, 1, 0));
	kit_fill(a, 80 * MiB, 5);
	stalloc_release_pool(0, 1, 0);
	stalloc_empty_pool(0, 1, 0);
	stalloc_empty_cache();
	void *other = get(150 * MiB, NULL), *more = stalloc_malloc(80 * MiB, 0, NULL);
	CHECK(!more, "memory of a graph that lives was given away");
	CHECK(kit_damage(a, 80 * MiB, 5) < 0, "it was overwritten");
	stalloc_release_pool(0, 1, 0);
	CHECK(stalloc_pool_uses(0, 1, 0) == 0, "the pool is still used");
	stalloc_release_pool(0, 1, 0); /* once too often */
	stalloc_free(other, 0, 0, NULL);
	kit_nothing_left("graphs share");
}

/* PyTorch ends neither the pool nor its use, or does so later. */
static void captures_fail(void)
{
	stalloc_lasting_stream(0, stream);
	for (uint64_t id = 10; id < 14; id++) {
		begin(id, 1);
		void *a = id % 2 ? get(60 * MiB, stream) : NULL;
		CHECK(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST) != STALLOC_OK,
		      "it sleeps during a capture");
		CHECK(fake(capture_end)(stream) == 1, "the capture was invalidated");
		stalloc_free(a, 0, 0, stream);
		kit_nothing_left("captures fail");
		CHECK(stalloc_pool_uses(0, id, 0) == 0, "pool %llu is used", (ull)id);
		OK(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST));
		OK(stalloc_resume(0, NULL, 0));
	}
	begin(20, 1);
	void *kept = get(MiB, stream);
	end(20);
	begin(20, 1);
	fake(capture_end)(stream);
	stalloc_empty_cache();
	CHECK(stalloc_pool_uses(0, 20, 0) == 1, "the failed capture still counts");
	stalloc_end_pool(0, 20, 0);
	stalloc_release_pool(0, 20, 0);
	CHECK(stalloc_pool_uses(0, 20, 0) == 1, "it counted twice");
	stalloc_release_pool(0, 20, 0);
	stalloc_free(kept, 0, 0, stream);
	kit_nothing_left("captures fail");
}

/* In a program's pool memory is managed as elsewhere. */
static void program_pools(void)
{
	void *const side = (void *)0x2000;
	stalloc_retain_pool(0, 30, 0);
	begin(30, 0);
	stalloc_free(get(150 * MiB, stream), 0, 0, stream);
	void *large = get(200 * MiB, stream);
	for (int i = 0; i < 3; i++) {
		stalloc_record_stream(large, side);
		stalloc_free(large, 0, 0, stream);
		CHECK((large = stalloc_malloc(200 * MiB, 0, stream)), "late frees are lost: %s",
		      stalloc_last_error());
	}
	stalloc_free(large, 0, 0, stream);
	stalloc_empty_pool(0, 30, 0);
	CHECK(kit_stats().reserved == 0, "empty_pool leaves %llu bytes", (ull)kit_stats().reserved);
	stalloc_free(get(150 * MiB, stream), 0, 0, stream);
	stalloc_free(get(200 * MiB, NULL), 0, 0, NULL); /* outside of it, with its idle memory */
	begin(31, 0);					/* the inner one serves */
	stalloc_free(get(8 * MiB, stream), 0, 0, stream);
	CHECK(fake(capture_begin)(stream) >= 0, "no capture");
	stalloc_free(get(16 * MiB, stream), 0, 0, stream); /* a program's own capture */
	CHECK(fake(capture_end)(stream) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 31, 0);
	stalloc_end_pool(0, 30, 0);
	stalloc_release_pool(0, 30, 0);
	stalloc_empty_pool(0, 31, 0);
	stalloc_empty_cache();
	CHECK(kit_stats().reserved >= 16 * MiB, "a captured pool was emptied");
	stalloc_release_pool(0, 31, 0);
	stalloc_release_pool(0, 30, 0);
	kit_nothing_left("program pools");
}

/* Without the engine, too, a graph's memory is there until its pool is released. */
static void plain(void)
{
	begin(1, 1);
	void *a = get(MiB, stream), *b = get(MiB, stream);
	stalloc_free(a, 0, 0, stream);
	end(1);
	CHECK(fake(live)("blocks") == 2, "%ld blocks", fake(live)("blocks"));
	stalloc_release_pool(0, 1, 0);
	CHECK(fake(live)("blocks") == 1, "%ld blocks", fake(live)("blocks"));
	stalloc_free(b, 0, 0, stream);
	CHECK(fake(live)("blocks") == 0, "%ld blocks", fake(live)("blocks"));
}

/* A graph's pool is announced before the device's first request: its memory stays all the same. */
static void before_any_request(void)
{
	struct kit_filter one = kit_only(stream);
	stalloc_begin_pool(0, 1, 0, &one);
	stalloc_capture_pool(0, 1, 0);
	char *a = get(8 * MiB, stream);
	stalloc_end_pool(0, 1, 0);
	stalloc_free(a, 0, 0, stream);
	stalloc_empty_pool(0, 1, 0);
	stalloc_empty_cache();
	kit_fill(a, 8 * MiB, 1); /* a replay */
	CHECK(kit_damage(a, 8 * MiB, 1) < 0, "the graph's memory is damaged");
	stalloc_release_pool(0, 1, 0);
	kit_nothing_left("before any request");
}

int main(int n, char **arguments)
{
	setenv("FAKECUDA_CAPACITY", "268435456", 1);
	kit_watchdog(60);
	if (n > 1 && !strcmp(arguments[1], "first")) {
		before_any_request();
		return 0;
	}
	stalloc_free(get(1, NULL), 0, 0, NULL); /* the driver is there */
	if (n > 1) {
		plain();
	} else {
		graphs_share();
		captures_fail();
		program_pools();
	}
	puts("pool_uses: each pool lives as long as it is used");
	return 0;
}
