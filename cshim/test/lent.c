#include "lent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../pool.h"

enum {
	STREAMS = 3,
	PAGES = 12,
	VIEWS = 4 * STREAMS,
	HANDLES = 2 * PAGES * STREAMS,
	ALL_PAGES = 2 * HANDLES + 1,
	ROOM = 1 << 14,
	TABLE = 1 << 16,
	PAGE = 2 << 20
};
static const uint64_t streams[STREAMS] = {0, 0x1000, 0x2000};

static struct stalloc_pool pool;

/* An engine has no kit. */
#define CHECK(condition, ...)                                                 \
	do {                                                                  \
		if (condition) break;                                         \
		fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
		fprintf(stderr, __VA_ARGS__);                                 \
		fputc('\n', stderr);                                          \
		abort();                                                      \
	} while (0)

static void *zeroed(size_t n, size_t size)
{
	void *at = calloc(n, size);
	CHECK(at, "no memory");
	return at;
}

static struct pool_table table(void)
{
	return (struct pool_table){zeroed(TABLE, sizeof(uint64_t)), zeroed(TABLE, sizeof(uint32_t)), TABLE - 1};
}

/* Maps a view of a heap over PAGES handles from the one named on. */
static void map_view(uint32_t heap, uint32_t list, uint32_t x, uint32_t handle, int memory)
{
	static uint32_t next_page = 1;
	struct pool_view *v = &pool.views[x];
	*v = (struct pool_view){.heap = heap, .list = list, .base = next_page, .n = PAGES, .room = PAGES, .free = PAGES};
	for (uint32_t i = 0; i < PAGES; i++, next_page++) {
		uint32_t c = handle + i;
		void *want = (void *)(uintptr_t)(pool.base + (uint64_t)next_page * PAGE);
		void *got = mmap(want, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, (off_t)c * PAGE);
		CHECK(got == want, "cannot map");
		pool.pages[next_page] = (struct pool_page){.handle = c, .view = x, .next = pool.handles[c].alias};
		pool.handles[c].alias = next_page;
		pool.handles[c].aliases++;
	}
	run_add(&pool, x, (uint64_t)v->base << POOL_PAGE_SHIFT, (uint64_t)(v->base + PAGES) << POOL_PAGE_SHIFT);
}

/* Each stream's heap has two halves, each mapped by a view for small blocks and by
 * one for large ones. */
void lent_make(struct stalloc_device *device)
{
	int memory = memfd_create("pool", 0);
	uint64_t words = ALL_PAGES;
	CHECK(memory >= 0 && ftruncate(memory, (off_t)(HANDLES + 1) * PAGE) == 0, "no memory");
	void *base = mmap(NULL, (size_t)(ALL_PAGES + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(base != MAP_FAILED, "no addresses");
	pool = (struct stalloc_pool){
		.taken = 1, .until = UINT64_MAX, .base = ((uint64_t)(uintptr_t)base + PAGE - 1) / PAGE * PAGE, .small_limit = 1 << 20, .most = 1 << 17, .hinted = 1,
		.run_room = ROOM, .block_room = ROOM, .hint_room = ROOM, .count_room = ROOM, .pages = zeroed(ALL_PAGES, sizeof *pool.pages),
		.runs = zeroed(ROOM, sizeof *pool.runs), .handles = zeroed(HANDLES + 1, sizeof *pool.handles),
		.heaps = zeroed(STREAMS + 1, sizeof *pool.heaps), .views = zeroed(VIEWS + 1, sizeof *pool.views),
		.blocks = zeroed(ROOM, sizeof *pool.blocks), .hints = zeroed(ROOM, sizeof *pool.hints),
		.counts = zeroed(ROOM, sizeof *pool.counts), .heap_at = table(), .block_at = table(), .hint_at = table(), .count_at = table()};
	pool.now = (struct pool_counters){.epoch = 1, .run_n = 1, .block_n = 1, .hint_n = 1, .count_n = 1};
	do {
		words = (words + 63) / 64;
		pool.starts[pool.levels++] = zeroed(words, sizeof(uint64_t));
	} while (words > 1);
	for (uint32_t h = 1; h <= STREAMS; h++) {
		uint64_t id = streams[h - 1], used = 0;
		pool.heaps[h] = (struct pool_heap){.stream = id, .handles = 2 * PAGES};
		pool_put(&pool.heap_at, &used, pool_mix(id + 1) ^ pool_mix(0x9e3779b97f4a7c15u), h);
		for (uint32_t i = 0; i < 2 * PAGES; i++) {
			uint32_t c = (h - 1) * 2 * PAGES + i + 1;
			pool.handles[c] = (struct pool_handle){.heap = h, .edge = {POOL_PAGE_UNITS, POOL_PAGE_UNITS}};
			handle_enlist(&pool, c);
		}
		for (uint32_t i = 0; i < 4; i++)
			map_view(h, i < 2 ? POOL_SMALL_VIEWS : POOL_LARGE_VIEWS, (h - 1) * 4 + i + 1, (h - 1) * 2 * PAGES + i % 2 * PAGES + 1, memory);
	}
	atomic_store(&device->pool, &pool);
	pool_leave(&pool);
}

/* Every unit of a handle is in one live block at most, and what the pool counts is
 * what there is. The caller has the pool. */
static void recount(void)
{
	static unsigned char taken[HANDLES + 1][POOL_PAGE_UNITS];
	uint64_t blocks = 0, units = 0, used = 0;
	memset(taken, 0, sizeof taken);
	CHECK(!pool.broken, "an equation did not hold");
	for (uint64_t b = 1; b < pool.now.block_n; b++) {
		const struct pool_block *c = &pool.blocks[b];
		if (c->state == POOL_BLOCK_GONE) continue;
		blocks++;
		units += c->size;
		for (uint64_t at = c->at; at < c->at + c->size; at++) {
			unsigned char *u = &taken[pool.pages[at >> POOL_PAGE_SHIFT].handle][at & POOL_PAGE_MASK];
			CHECK(!*u, "block %llu shares unit %llu", (unsigned long long)b, (unsigned long long)at);
			*u = 1;
		}
	}
	for (uint32_t x = 1; x <= HANDLES; x++) used += pool.handles[x].used;
	CHECK((int64_t)blocks == pool.now.blocks && (int64_t)(units * STALLOC_GRAIN) == pool.now.load && used == units,
	      "%llu blocks of %llu units, counted as %lld with %lld bytes, in handles %llu units", (unsigned long long)blocks,
	      (unsigned long long)units, (long long)pool.now.blocks, (long long)pool.now.load, (unsigned long long)used);
}

static void take(void)
{
	while (!pool_try(&pool)) sched_yield();
}

bool lent_free(uint64_t addr, struct stalloc_freed *freed)
{
	bool done = false;
	if (addr < pool.base || addr >= pool.base + (uint64_t)ALL_PAGES * PAGE) return false;
	take();
	uint32_t b = pool_get(&pool.block_at, (addr - pool.base) / STALLOC_GRAIN + 1);
	if (b) {
		*freed = (struct stalloc_freed){.stream = pool.heaps[pool.views[pool.blocks[b].view].heap].stream};
		done = pool_free(&pool, freed->stream, addr, &freed->rounded, &freed->asked);
	}
	pool_leave(&pool);
	return done;
}

/* What the engine does at a boundary, the forgetting of hints included. */
void lent_boundary(void)
{
	take();
	recount();
	pool.now.epoch++;
	pool.now.ordinals = 0;
	if (pool.now.hint_n > ROOM / 2) {
		memset(pool.hint_at.val, 0, TABLE * sizeof(uint32_t));
		pool.now.hint_n = 1;
		pool.now.hint_used = 0;
	}
	pool_leave(&pool);
}

/* A run in which next to nothing was served from what was lent proves nothing. */
static __attribute__((destructor)) void at_the_end(void)
{
	uint64_t served = pool.now.sticky + pool.now.fits;
	if (pool.pages) CHECK(served > 100, "only %llu requests were served from the pool", (unsigned long long)served);
}
