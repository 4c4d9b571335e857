/* Regions leave and come back, one opened after the other, again and again, while other streams use
 * the memory that they lend: their bytes stay the same, and so do the others', and the device never
 * holds more than the limit. STALLOC_TEST_STEPS is the number of rounds (200). */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "work.h"

enum { REGIONS = 3, STATES = 2, OTHERS = 8, WORKERS = 2 };
enum { MIB = 1 << 20, CAPACITY = 32 * MIB, MOST = 16 * MIB };
static const char *const tags[REGIONS] = {"first", "second", "third"};
static struct block states[REGIONS][STATES], others[OTHERS];
static uint64_t dice;
static _Atomic uint64_t patterns;
static _Atomic bool over;

static bool request(struct block *b, size_t size, void *stream)
{
	*b = (struct block){stalloc_malloc(size, 0, stream), size,
			    atomic_fetch_add(&patterns, 1), stream};
	if (b->at) kit_fill(b->at, size, b->tag);
	return b->at;
}

static void release(struct block *b)
{
	block_free(b);
	b->at = NULL;
}

/* Makes small requests, on its own stream. */
static void *work(void *stream)
{
	uint64_t random = (uintptr_t)stream;
	struct block b[4] = {0};
	while (!atomic_load(&over)) {
		struct block *x = &b[kit_below(&random, 4)];
		if (x->at)
			release(x);
		else
			request(x, 1 + kit_below(&random, MIB / 2), stream);
	}
	for (int i = 0; i < 4; i++)
		if (b[i].at) release(&b[i]);
	return NULL;
}

/* Requests more memory than the regions leave free. Returns whether some of it was away. */
static bool fill_memory(void)
{
	int n = 0;
	while (n < OTHERS && request(&others[n], (size_t)(1 + kit_below(&dice, 3 * MIB)), NULL))
		n++;
	bool away = kit_stats().asleep > 0;
	for (int i = 0; i < n; i++) release(&others[i]);
	return away;
}

/* The other threads free their blocks at some time. */
static void open_again(const char *tag)
{
	for (unsigned waited = 0; stalloc_begin_awake(0, tag, NULL) != STALLOC_OK;)
		kit_wait(&waited, 1, stalloc_last_error());
}

/* Opens a region, perhaps changes what is in it, and closes it; perhaps says that more follow. */
static void use(int region)
{
	bool changed = kit_below(&dice, 2);
	open_again(tags[region]);
	for (int i = 0; i < STATES; i++) {
		struct block *x = &states[region][i];
		block_check(x);
		if (!changed) continue;
		x->tag = atomic_fetch_add(&patterns, 1);
		kit_fill(x->at, x->size, x->tag);
	}
	int more = region + 1 < REGIONS && kit_below(&dice, 2) ? STALLOC_MORE_FOLLOW : 0;
	OK(stalloc_end_awake(0, tags[region], NULL, more | (changed ? STALLOC_CHANGED : 0)));
}

static bool step(void)
{
	bool away = false;
	for (int r = 0; r < REGIONS; r++) use(r);
	for (uint64_t n = 1 + kit_below(&dice, 3); n > 0; n--) away |= fill_memory();
	if (kit_below(&dice, 4) == 0) stalloc_prefetch(0, tags[kit_below(&dice, REGIONS)]);
	if (kit_below(&dice, 64) == 0) stalloc_empty_cache();
	OK(stalloc_step(0));
	CHECK(fake(most)(0) <= MOST, "more than the limit was held");
	return away;
}

/* A region with its states, which is closed. */
static void make(int region)
{
	OK(stalloc_begin_region(tags[region]));
	for (int i = 0; i < STATES; i++)
		CHECK(request(&states[region][i], (size_t)(MIB + kit_below(&dice, MIB)), NULL),
		      "%s", stalloc_last_error());
	OK(stalloc_end_region());
	OK(stalloc_end_awake(0, tags[region], NULL, STALLOC_CHANGED));
}

int main(void)
{
	pthread_t workers[WORKERS];
	uint64_t steps = kit_number("STALLOC_TEST_STEPS", 200), away = 0;
	setenv("FAKECUDA_CAPACITY", "33554432", 1);
	dice = kit_seed();
	kit_watchdog(60);
	OK(stalloc_set_memory_fraction((double)MOST / CAPACITY, 0));
	for (int r = 0; r < REGIONS; r++) make(r);
	for (uintptr_t i = 0; i < WORKERS; i++) workers[i] = kit_thread(work, (void *)(i + 0x40));
	for (uint64_t n = 0; n < steps; n++, kit_progress()) away += step();
	atomic_store(&over, true);
	for (int i = 0; i < WORKERS; i++) pthread_join(workers[i], NULL);
	CHECK(away > steps / 4, "only %llu times something was away", (ull)away);
	for (int r = 0; r < REGIONS; r++) {
		open_again(tags[r]);
		for (int i = 0; i < STATES; i++) release(&states[r][i]);
	}
	kit_nothing_left("the steps");
	printf("away: %llu steps, in %llu of them something was away\n", (ull)steps, (ull)away);
	return 0;
}
