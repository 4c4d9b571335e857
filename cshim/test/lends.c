/* Regions that lend their memory: bytes, limits, and driver calls that fail. Work is held back by
 * the simulated driver, so copies pass late. Beside them a graph writes what its capture had, which
 * never leaves. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

enum { BLOCKS = 8, FRAMES = 2, OTHERS = 96, ROUNDS = 30, MIB = 1 << 20, CAPACITY = 64 * MIB };
static const char tag[] = "states";
static struct block {
	char *at;
	size_t size;
	uint64_t pattern;
} states[BLOCKS], frames[FRAMES], others[OTHERS];
static uint64_t dice, patterns;
static int refused, away;
static char rule[64]; /* of calls that fail */

static void fill(struct block *b)
{
	b->pattern = ++patterns;
	kit_fill(b->at, b->size, b->pattern);
}

static void check(const struct block *b, const char *what)
{
	CHECK(kit_damage(b->at, b->size, b->pattern) < 0, "%s of %zu bytes is damaged, rule %s",
	      what, b->size, rule);
}

static void capture(void)
{
	stalloc_begin_pool(0, 3, 3, NULL);
	stalloc_capture_pool(0, 3, 3);
	for (int i = 0; i < FRAMES; i++) {
		frames[i].size = (size_t)(1 + kit_below(&dice, 3 * MIB));
		frames[i].at = kit_get(frames[i].size, 0, NULL);
	}
	stalloc_end_pool(0, 3, 3);
	for (int i = 0; i < FRAMES; i++) stalloc_free(frames[i].at, 0, 0, NULL);
}

/* Asks for memory until there is none, checks it, and frees it. */
static void press(bool sound)
{
	int n = 0;
	for (; n < OTHERS; n++) {
		others[n].size = 1 + kit_below(&dice, 2 * MIB);
		others[n].at = stalloc_malloc(others[n].size, 0, NULL);
		if (!others[n].at) break;
		fill(&others[n]);
	}
	CHECK(!sound || n == OTHERS || kit_stats().asleep > 0, "%d blocks, and nothing has left",
	      n);
	away += kit_stats().asleep > 0;
	for (int i = 0; i < FRAMES; i++) fill(&frames[i]); /* a replay */
	for (int i = 0; i < n; i++) {
		check(&others[i], "a block");
		stalloc_free(others[i].at, others[i].size, 0, NULL);
	}
}

/* Closes the region, has others take its memory, and opens it again. */
static void step(bool sound)
{
	bool changed = kit_below(&dice, 2), all = kit_below(&dice, 4) == 0;
	for (int i = 0; i < BLOCKS && changed; i++) fill(&states[i]);
	int how = (changed ? STALLOC_CHANGED : 0) + (all ? STALLOC_ALL_LEAVES : 0);
	int result = stalloc_end_awake(0, tag, NULL, how);
	CHECK(result == STALLOC_OK || !sound, "%s", stalloc_last_error());
	if (result != STALLOC_OK) return;
	if (kit_below(&dice, 4)) press(sound);
	if (kit_below(&dice, 2)) stalloc_prefetch(0, tag);
	if (kit_below(&dice, 4) == 0) press(sound);
	if (kit_below(&dice, 8) == 0) {
		const char *tags[] = {tag};
		result = stalloc_pause(0, tags, 1, STALLOC_BACKUP_HOST);
		CHECK(result == STALLOC_OK || !sound, "%s", stalloc_last_error());
		fake(fail)(NULL);
		OK(stalloc_resume(0, tags, 1));
	}
	if (stalloc_begin_awake(0, tag, NULL) != STALLOC_OK) {
		refused++;
		CHECK(!sound, "%s", stalloc_last_error());
		fake(fail)(NULL);
		OK(stalloc_begin_awake(0, tag, NULL));
	}
	kit_pass_all(); /* as the stream would wait for the copies */
	for (int i = 0; i < FRAMES; i++) check(&frames[i], "what a graph wrote");
	for (int i = 0; i < BLOCKS; i++) check(&states[i], "a state");
	CHECK(kit_stats().reserved <= CAPACITY, "%llu are held", (ull)kit_stats().reserved);
}

/* The nth call of the driver fails, or all after it for a while, in any state. */
static void calls_fail(void)
{
	static const char *const names[] = {
		"cuMemCreate",	  "cuMemMap",		"cuMemSetAccess",    "cuMemUnmap",
		"cuMemRelease",	  "cuMemcpyDtoHAsync",	"cuMemcpyHtoDAsync", "cuEventRecord",
		"cuEventQuery",	  "cuStreamWaitEvent",	"cuEventCreate",     "cuCtxSynchronize",
		"cuMemHostRegister"};
	for (size_t i = 0; i < 3 * sizeof names / sizeof *names; i++) {
		snprintf(rule, sizeof rule, "%s:%d:2", names[i / 3],
			 1 + (int)kit_below(&dice, i % 3 ? 4 : 40));
		CHECK(fake(fail)(rule) == 0, "%s", rule);
		step(false);
		fake(fail)(NULL);
		step(true);
	}
}

/* Regions that come and go, and those that never leave, keep no events of the driver: in so many
 * rounds even one kept in every second would be seen among those that are kept to be used again,
 * which are as many as were needed at once. */
static void events_go_back(void)
{
	enum { ROUNDS = 1000, REGIONS = 100, MOST = 300 };
	char name[32];
	long before = fake(live)("events");
	for (int i = 0; i < ROUNDS; i++) {
		snprintf(name, sizeof name, "region %d", i % REGIONS);
		OK(stalloc_begin_region(name));
		char *at = kit_get(MIB, 0, NULL);
		stalloc_end_region();
		OK(stalloc_end_awake(0, name, NULL, STALLOC_CHANGED + i % 2));
		CHECK(i % 3 == 0 && i >= 100 ? true : !stalloc_begin_awake(0, name, NULL), "%s",
		      stalloc_last_error());
		stalloc_free(at, 0, 0, NULL);
		if (i >= 100) stalloc_empty_cache();
	}
	long after = fake(live)("events");
	CHECK(after < before + MOST, "%ld events, %ld before", after, before);
}

static void write_it(void *at, size_t size, unsigned long pattern) { kit_fill(at, size, pattern); }

/* A block that is new in a region, on a stream that did not open it, keeps what that stream writes,
 * though the handle that it lies in is still being copied back. */
static void copies_spare_new_blocks(void)
{
	void *stream = (void *)0x40;
	OK(stalloc_begin_region(tag));
	struct block old = {kit_get(MIB, 0, stream), MIB, 0}, new = {.size = MIB / 2};
	fill(&old);
	OK(stalloc_end_awake(0, tag, stream, STALLOC_CHANGED + STALLOC_ALL_LEAVES));
	for (double end = kit_seconds() + 20; kit_stats().asleep == 0; kit_pass_all())
		CHECK(kit_seconds() < end, "the region does not leave");
	OK(stalloc_begin_awake(0, tag, NULL));
	struct kit_filter other = kit_only((void *)0x80);
	stalloc_begin_pool(0, 4, 4, &other);
	SAYS(!stalloc_malloc(new.size, 0, stream), "being copied back"); /* a capture cannot wait */
	stalloc_end_pool(0, 4, 4);
	stalloc_release_pool(0, 4, 4);
	CHECK(fake(fail)("cuEventQuery:1:1") == 0, "no rule"); /* whether they have passed */
	new.at = kit_get(new.size, 0, stream);
	fake(fail)(NULL);
	OK(stalloc_end_region());
	CHECK((uintptr_t)old.at >> 21 == (uintptr_t)new.at >> 21, "they lie in two handles");
	new.pattern = ++patterns;
	fake(launch)(stream, 0, write_it, new.at, new.size, new.pattern);
	fake(pass_stream)(stream);
	kit_pass_all();
	check(&old, "a block that was away");
	check(&new, "a new block");
	stalloc_free(old.at, old.size, 0, stream);
	stalloc_free(new.at, new.size, 0, stream);
}

/* Where nobody can say whether the last use of a closed region has passed, the next one still comes
 * after it, though on another stream. */
static void uses_keep_their_order(void)
{
	void *first = (void *)0x40, *second = (void *)0x50;
	OK(stalloc_begin_region("used"));
	struct block b = {kit_get(MIB, 0, first), MIB, ++patterns};
	OK(stalloc_end_region());
	fake(launch)(first, 0, write_it, b.at, b.size, b.pattern);
	OK(stalloc_end_awake(0, "used", first, STALLOC_CHANGED));
	stalloc_begin_pool(0, 4, 4, NULL);
	CHECK(fake(fail)("cuEventQuery:1:1") == 0, "no rule");
	SAYS(stalloc_begin_awake(0, "used", second) != STALLOC_OK, "cuEventQuery");
	fake(fail)(NULL);
	SAYS(stalloc_begin_awake(0, "used", second) != STALLOC_OK, "earlier work still uses it");
	stalloc_end_pool(0, 4, 4);
	stalloc_release_pool(0, 4, 4);
	OK(stalloc_begin_awake(0, "used", second));
	b.pattern = ++patterns;
	fake(launch)(second, 0, write_it, b.at, b.size, b.pattern);
	fake(pass_stream)(second);
	kit_pass_all();
	check(&b, "what was written last");
	stalloc_free(b.at, b.size, 0, first);
}

/* Streams go on, a bit at a time. */
static void *pass(void *none)
{
	for (unsigned long n = 0;; n++) {
		fake(pass)(n, 1 + (long)(n % 7));
		if (n % 16 == 0) kit_sleep_ms(1);
	}
	return none;
}

int main(void)
{
	setenv("FAKECUDA_CAPACITY", "67108864", 1);
	dice = kit_seed();
	if (kit_number("FAKECUDA_HELD", 0)) {
		copies_spare_new_blocks();
		uses_keep_their_order();
		kit_thread(pass, NULL);
	}
	OK(stalloc_begin_region(tag));
	for (int i = 0; i < BLOCKS; i++) {
		states[i].size = (size_t)(1 + kit_below(&dice, 4 * MIB));
		states[i].at = kit_get(states[i].size, 0, NULL);
		fill(&states[i]);
	}
	OK(stalloc_end_region());
	capture();
	for (int i = 0; i < FRAMES; i++) fill(&frames[i]);
	CHECK(stalloc_begin_awake(0, "unknown", NULL) != STALLOC_OK, "there is no such region");
	CHECK(stalloc_begin_awake(99, tag, NULL) == STALLOC_ERR_ARGUMENT, "there is no device 99");
	CHECK(stalloc_end_awake(0, tag, NULL, 8) == STALLOC_ERR_ARGUMENT, "8 says nothing");
	CHECK(stalloc_end_awake(0, NULL, NULL, 0) == STALLOC_ERR_ARGUMENT, "no region is named");
	for (int i = 0; i < ROUNDS; i++) step(true);
	CHECK(away > ROUNDS / 4, "%d times something was away", away);
	calls_fail();
	events_go_back();
	for (int i = 0; i < BLOCKS; i++) stalloc_free(states[i].at, states[i].size, 0, NULL);
	stalloc_release_pool(0, 3, 3);
	kit_nothing_left("regions");
	printf("lends: %d times away, %d times refused\n", away, refused);
	return 0;
}
