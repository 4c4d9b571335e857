/* Memory that sleeps, and regions: bytes, errors, threads, and driver calls that fail. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kit.h"

enum { BLOCKS = 6 };
static void *const stream = (void *)0x100;
static struct block {
	char *at;
	size_t size;
} blocks[BLOCKS];


static void *get(size_t size)
{
	return kit_get(size, 0, stream);
}

static void fill(void)
{
	for (int i = 0; i < BLOCKS; i++) kit_fill(blocks[i].at, blocks[i].size, (uint64_t)i + 1);
}

static void check(const char *when)
{
	for (int i = 0; i < BLOCKS; i++)
		CHECK(kit_damage(blocks[i].at, blocks[i].size, (uint64_t)i + 1) < 0,
		      "block %d is damaged %s", i, when);
}

/* Every third block is of the region "weights". */
static void program(void)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (i % 3 == 0) OK(stalloc_begin_region("weights"));
		blocks[i] = (struct block){.size = (size_t)(i + 1) * 300000 / (i % 2 ? 1 : 900)};
		blocks[i].at = get(blocks[i].size);
		if (i % 3 == 0) OK(stalloc_end_region());
	}
	fill();
}

/* What is mapped, as it is told, which is piece by piece and each once. */
static struct mapping {
	char *at;
	size_t size;
	bool usable;
} mappings[256];
static size_t mapping_count;

static size_t usable(void)
{
	size_t sum = 0;
	for (size_t i = 0; i < mapping_count; i++) sum += mappings[i].usable ? mappings[i].size : 0;
	return sum;
}

static void track(int device, void *at, size_t size, int change)
{
	char *from = at, *to = from + size;
	CHECK(device == 0 && size > 0, "%zu bytes of device %d", size, device);
	for (size_t i = 0; i < mapping_count; i++) {
		struct mapping *p = &mappings[i];
		if (p->at + p->size <= from || p->at >= to) continue;
		CHECK(change != STALLOC_MAPPED && p->at >= from && p->at + p->size <= to,
		      "it is mapped already, or only partly meant");
		if (change == STALLOC_UNMAPPED) {
			if (p->usable) (void)*(volatile char *)p->at; /* it is still there */
			mappings[i--] = mappings[--mapping_count];
		} else {
			p->usable = true;
		}
	}
	if (change != STALLOC_MAPPED) return;
	CHECK(mapping_count < sizeof mappings / sizeof *mappings, "too many");
	mappings[mapping_count++] = (struct mapping){at, size, false};
}

static void sleep_all(void)
{
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	struct stalloc_stats s = kit_stats();
	CHECK(s.reserved == 0 && s.asleep > 0 && s.backup == s.allocated &&
		      fake(live)("handles") == 0,
	      "%llu reserved, %llu asleep, %llu kept of %llu, %ld handles",
	      (ull)s.reserved, (ull)s.asleep, (ull)s.backup, (ull)s.allocated,
	      fake(live)("handles"));
}

static void all_sleep(void)
{
	uint64_t before = kit_stats().reserved;
	for (int i = 0; i < 10; i++) {
		CHECK(usable() >= before, "%zu can be used, as it is told, and %llu are held",
		      usable(), (ull)before);
		sleep_all();
		CHECK(mapping_count == 0, "%zu pieces are mapped that sleep", mapping_count);
		CHECK(!stalloc_malloc(700, 0, stream), "a request was served of what sleeps");
		SAYS(true, "sleeps: resume it");
		OK(stalloc_step(0));
		OK(stalloc_resume(-1, NULL, 0));
		check("after sleep");
		CHECK(kit_stats().reserved == before && kit_stats().asleep == 0,
		      "%llu of %llu reserved", (ull)kit_stats().reserved, (ull)before);
		stalloc_free(get(700), 700, 0, stream);
		stalloc_free(get(3 << 20), 3 << 20, 0, stream);
		before = kit_stats().reserved;
	}
}

static void *elsewhere(void *unused)
{
	void *at = get(5000); /* this thread is in no region */
	stalloc_free(at, 5000, 0, stream);
	return unused;
}

static void region_sleeps(void)
{
	const char *weights[] = {"weights"}, *wrong[] = {"weights", "wieghts"};
	OK(stalloc_begin_region("weights"));
	OK(stalloc_pause(0, weights, 1, STALLOC_BACKUP_HOST));
	CHECK(!stalloc_malloc(5000, 0, stream), "a request was served of what sleeps");
	pthread_t thread = kit_thread(elsewhere, NULL);
	pthread_join(thread, NULL);
	OK(stalloc_begin_region("other"));
	stalloc_free(get(5000), 5000, 0, stream);
	OK(stalloc_end_region());
	CHECK(!stalloc_malloc(5000, 0, stream), "the thread is in the outer region again");
	stalloc_free(blocks[0].at, 0, 0, stream);
	OK(stalloc_end_region());
	stalloc_free(get(5000), 5000, 0, stream);
	CHECK(stalloc_resume(0, wrong, 2) == STALLOC_ERR_ARGUMENT &&
		      strstr(stalloc_last_error(), "\"wieghts\"; known are: other, weights"),
	      "%s", stalloc_last_error());
	OK(stalloc_resume(0, weights, 1));
	OK(stalloc_begin_region("weights"));
	blocks[0].at = get(blocks[0].size);
	OK(stalloc_end_region());
	kit_fill(blocks[0].at, blocks[0].size, 1);
	check("after its region's sleep");
}

/* What a graph may launch stays awake, and nothing is waited for while a stream may be captured. */
static void graphs_stay_awake(void)
{
	struct kit_filter one = kit_only(stream);
	stalloc_begin_pool(0, 5, 7, &one);
	OK(stalloc_begin_region("weights")); /* the private pool comes first */
	void *at = get(1 << 20);
	OK(stalloc_end_region());
	SAYS(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST) < 0, "being captured");
	CHECK(kit_stats().asleep == 0, "something sleeps");
	stalloc_end_pool(0, 5, 7);
	kit_fill(at, 1 << 20, 99);
	OK(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST));
	CHECK(kit_damage(at, 1 << 20, 99) < 0, "a graph's memory is damaged");
	CHECK(kit_stats().reserved == 2 << 20, "%llu stay awake", (ull)kit_stats().reserved);
	OK(stalloc_resume(0, NULL, 0));
	stalloc_free(at, 0, 0, stream);
	stalloc_release_pool(0, 5, 7);
	check("after a graph");
}

static void bad_arguments(void)
{
	const char *none[] = {NULL};
	CHECK(stalloc_end_region() == STALLOC_ERR_ARGUMENT, "there was a region to end");
	CHECK(stalloc_begin_region("") == STALLOC_ERR_ARGUMENT &&
		      stalloc_begin_region(NULL) == STALLOC_ERR_ARGUMENT,
	      "it has no name");
	for (int i = 0; i < 16; i++) OK(stalloc_begin_region("weights"));
	CHECK(stalloc_begin_region("weights") == STALLOC_ERR_ARGUMENT, "17 deep");
	for (int i = 0; i < 16; i++) OK(stalloc_end_region());
	CHECK(stalloc_pause(64, NULL, 0, 0) == STALLOC_ERR_ARGUMENT &&
		      stalloc_resume(-2, NULL, 0) == STALLOC_ERR_ARGUMENT,
	      "no device");
	CHECK(stalloc_pause(0, NULL, 0, 2) == STALLOC_ERR_ARGUMENT, "no backup");
	CHECK(stalloc_pause(0, none, 1, 0) == STALLOC_ERR_ARGUMENT &&
		      stalloc_resume(0, NULL, 1) == STALLOC_ERR_ARGUMENT,
	      "no tag");
}

/* Each call fails once, some as if memory were short: then resume() makes room and tries again.
 * After that all can sleep and wake. */
static void calls_fail(void)
{
	char rule[64];
	long calls = fake(count)("*"), failed = 0;
	sleep_all();
	OK(stalloc_resume(0, NULL, 0));
	calls = fake(count)("*") - calls; /* of both */
	for (long n = 1; n <= calls; n++) {
		snprintf(rule, sizeof rule, "*:%ld:%d", n, n % 3 ? 999 : 2);
		fake(fail)(rule);
		failed += stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST) != STALLOC_OK;
		fake(fail)(NULL);
		if (n % 2) sleep_all();
		fake(fail)(rule);
		failed += stalloc_resume(0, NULL, 0) != STALLOC_OK;
		fake(fail)(NULL);
		OK(stalloc_resume(0, NULL, 0));
		check(rule);
	}
	/* The others restore a thread's context, or pin. How many these are depends on how many
	 * threads copy, so on the load of the machine. */
	CHECK(failed > calls / 5, "of %ld calls %ld failures were told", calls, failed);
}

int main(void)
{
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST)); /* there is nothing yet */
	OK(stalloc_resume(-1, NULL, 0));
	stalloc_set_tracker(track);
	program();
	all_sleep();
	region_sleeps();
	graphs_stay_awake();
	bad_arguments();
	calls_fail();
	for (int i = 0; i < BLOCKS; i++) stalloc_free(blocks[i].at, 0, 0, stream);
	kit_nothing_left("sleep");
	OK(stalloc_close(-1));
	CHECK(stalloc_pause(0, NULL, 0, 0) == STALLOC_ERR_ENGINE, "a closed device sleeps");
	printf("sleep: bytes, regions and failures\n");
	return 0;
}
