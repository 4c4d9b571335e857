/* The edges of the interface: wrong arguments, foreign addresses, the limits of
 * memory, statistics, and what is said about all that. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit.h"

enum { MANY = 64 };
static const size_t big = (size_t)20 << 20;
static int thrown;
static char thrown_text[256];

static void throws(const char *function, const char *file, uint32_t line, const char *message)
{
	(void)file, (void)line;
	thrown++;
	CHECK(strcmp(function, "stalloc_malloc") == 0, "thrown by %s", function);
	snprintf(thrown_text, sizeof thrown_text, "%s", message);
}

static void arguments(void)
{
	struct stalloc_stats s;
	size_t size = 0;
	int code;
	CHECK(!stalloc_malloc(0, 0, NULL), "size 0 gave a block");
	SAYS(!stalloc_malloc(1 << 20, -1, NULL), "device");
	SAYS(!stalloc_malloc(1 << 20, 64, NULL), "device");
	SAYS(!stalloc_malloc(SIZE_MAX, 0, NULL), "");
	SAYS(!stalloc_malloc((size_t)INT64_MAX, 0, NULL), "");
	SAYS(!stalloc_malloc((size_t)1 << 60, 0, NULL), "");
	stalloc_free(NULL, 0, 0, NULL);
	stalloc_record_stream(NULL, NULL);
	CHECK(!stalloc_base(NULL, &size), "NULL has a base");
	code = stalloc_step(64);
	SAYS(code == STALLOC_ERR_ARGUMENT, "64");
	CHECK(stalloc_step(-2) == STALLOC_ERR_ARGUMENT, "step(-2) was accepted");
	CHECK(stalloc_get_stats(-1, &s, sizeof s) == STALLOC_ERR_ARGUMENT,
	      "a negative device has statistics");
	code = stalloc_get_stats(0, NULL, 0);
	SAYS(code == STALLOC_ERR_ARGUMENT, "NULL");
	CHECK(stalloc_reset_peak(99) == STALLOC_ERR_ARGUMENT, "a peak of device 99");
	CHECK(stalloc_explain(99, NULL, 0) == STALLOC_ERR_ARGUMENT, "an explanation of device 99");
	CHECK(stalloc_save_plan(99, "x") == STALLOC_ERR_ARGUMENT &&
		      stalloc_load_plan(0, NULL) == STALLOC_ERR_ARGUMENT,
	      "a plan of nothing");
	CHECK(strcmp(stalloc_version(), STALLOC_VERSION) == 0, "version %s", stalloc_version());
}

/* The same of a thread that has been here often enough to own the device's lock. */
static void arguments_of_owner(void)
{
	for (int i = 0; i < 1000; i++) stalloc_free(stalloc_malloc(512, 0, NULL), 512, 0, NULL);
	OK(stalloc_begin_region("edges"));
	SAYS(!stalloc_malloc(512, -1, NULL), "device");
	OK(stalloc_end_region());
	kit_stderr_begin();
	arguments();
	CHECK(kit_stderr_end("not a live block") == 0, "NULL was taken for a block");
}

static void statistics(void)
{
	struct stalloc_stats before = kit_stats(), s;
	size_t size = 0;
	char *a = stalloc_malloc(1000, 0, NULL), *b = stalloc_malloc(512, 0, NULL), text[16];
	CHECK(a && b, "%s", stalloc_last_error());
	s = kit_stats();
	CHECK(s.allocated - before.allocated == 1536, "allocated grew by %llu",
	      (ull)(s.allocated - before.allocated));
	CHECK(s.requested - before.requested == 1512, "requested grew by %llu",
	      (ull)(s.requested - before.requested));
	CHECK(s.blocks - before.blocks == 2 && s.requests - before.requests == 2, "blocks");
	CHECK(s.reserved >= s.allocated, "less is reserved than allocated");
	CHECK(stalloc_base(a, &size) == a && size >= 1000, "base %p, size %zu",
	      stalloc_base(a, NULL), size);
	stalloc_free(a, 0, 0, NULL);
	s = kit_stats();
	CHECK(s.requested - before.requested == 512, "requested is off by %lld",
	      (long long)(s.requested - before.requested) - 512);
	CHECK(s.peak_allocated >= s.allocated + 1024, "no peak");
	OK(stalloc_reset_peak(0));
	s = kit_stats();
	CHECK(s.peak_allocated == s.allocated && s.peak_requested == s.requested &&
		      s.peak_blocks == s.blocks,
	      "peaks stay");
	stalloc_free(b, 0, 0, NULL);
	/* A caller built against an older header. */
	memset(&s, 0xEE, sizeof s);
	OK(stalloc_get_stats(0, &s, 8));
	CHECK(s.requests != 0xEEEEEEEEEEEEEEEEu && s.hits == 0xEEEEEEEEEEEEEEEEu,
	      "more was written than asked for");
	int length = stalloc_explain(0, text, sizeof text);
	CHECK(length > (int)sizeof text && strlen(text) == sizeof text - 1, "explain: %d, \"%s\"",
	      length, text);
}

/* Runs f, and returns the lines on standard error that say word. */
static int lines_about(const char *word, void (*f)(void))
{
	kit_stderr_begin();
	f();
	return kit_stderr_end(word);
}

/* Foreign addresses and double frees, of blocks of the pool and of a plan. */
static void wrong_frees(void)
{
	char on_stack[512], *other = malloc(4096);
	struct stalloc_stats before = kit_stats();
	char *keep = stalloc_malloc(1 << 20, 0, NULL), *p = stalloc_malloc(1 << 20, 0, NULL);
	kit_fill(keep, 1 << 20, 5);
	stalloc_free(on_stack, 0, 0, NULL);
	stalloc_free(other, 0, 0, NULL);
	stalloc_free((void *)(uintptr_t)512, 0, 0, NULL);
	stalloc_free(keep + 512, 0, 0, NULL);
	stalloc_free(keep + 1, 0, 0, NULL);
	stalloc_free(p, 0, 0, NULL);
	stalloc_free(p, 0, 0, NULL);
	stalloc_free(p, 0, 0, (void *)0x1000);
	stalloc_record_stream(p, (void *)0x1000);
	stalloc_record_stream(on_stack, (void *)0x1000);
	CHECK(kit_damage(keep, 1 << 20, 5) < 0, "a wrong free touched a live block");
	for (unsigned waited = 0; kit_stats().hits < before.hits + 16;) {
		void *planned[8];
		for (int i = 0; i < 8; i++)
			planned[i] = stalloc_malloc(100000u * (size_t)(i + 1), 0, NULL);
		for (int twice = 0; twice < 2; twice++)
			for (int i = 0; i < 8; i++) stalloc_free(planned[i], 0, 0, NULL);
		OK(stalloc_step(-1));
		kit_wait(&waited, 5, "a plan, whose blocks are freed twice");
	}
	stalloc_free(keep, 0, 0, NULL);
	CHECK(kit_stats().allocated == before.allocated &&
		      kit_stats().requested == before.requested,
	      "a wrong free was counted");
	free(other);
}

static int fill_up(void **blocks)
{
	int n = 0;
	while (n < MANY && (blocks[n] = stalloc_malloc(big, 0, NULL))) {
		kit_fill(blocks[n], big, (uint64_t)n);
		n++;
	}
	return n;
}

static void out_of_memory(void)
{
	void *blocks[MANY + 1];
	uint64_t ooms = kit_stats().ooms;
	stalloc_empty_cache();
	int n = fill_up(blocks);
	CHECK(n >= 8 && n < MANY, "%d blocks of 20 MiB fit", n);
	SAYS(true, "out of memory");
	CHECK(strstr(stalloc_last_error(), "20971520") || strstr(stalloc_last_error(), "20.00 MiB"),
	      "%s", stalloc_last_error());
	CHECK(kit_stats().ooms > ooms, "not counted");
	stalloc_set_thrower(throws);
	SAYS(!stalloc_malloc(big, 0, NULL), "out of memory");
	CHECK(thrown == 1 && strstr(thrown_text, "out of memory"), "thrown %d times: %s", thrown,
	      thrown_text);
	stalloc_set_thrower(NULL);
	SAYS(!stalloc_malloc(big, 0, NULL), "out of memory");
	CHECK(thrown == 1, "thrown again");
	for (int i = 0; i < n; i++) {
		CHECK(kit_damage(blocks[i], big, (uint64_t)i) < 0, "block %d was overwritten", i);
		stalloc_free(blocks[i], 0, 0, NULL);
	}
	CHECK(fill_up(blocks) == n, "after freeing, fewer blocks fit");
	for (int i = 0; i < n; i++) stalloc_free(blocks[i], 0, 0, NULL);
	stalloc_empty_cache();
	stalloc_set_memory_fraction(0.5, 0);
	int half = fill_up(blocks);
	CHECK(half >= n / 2 - 2 && half <= n / 2 + 1, "of %d blocks %d fit into half of the memory",
	      n, half);
	for (int i = 0; i < half; i++) stalloc_free(blocks[i], 0, 0, NULL);
	stalloc_set_memory_fraction(1, 0);
}

static void *elsewhere(void *argument)
{
	CHECK(strcmp(stalloc_last_error(), "") == 0, "another thread's error: %s",
	      stalloc_last_error());
	SAYS(!stalloc_malloc(1, 77, NULL), "77");
	return argument;
}

static void errors_belong_to_threads(void)
{
	stalloc_step(99);
	pthread_t thread = kit_thread(elsewhere, NULL);
	pthread_join(thread, NULL);
	SAYS(true, "99");
}

static void private_pools(void)
{
	stalloc_begin_pool(0, 7, 1, NULL);
	char *inside = stalloc_malloc(1 << 20, 0, NULL);
	stalloc_end_pool(0, 7, 1);
	stalloc_end_pool(0, 7, 1); /* once too often */
	CHECK(inside, "%s", stalloc_last_error());
	stalloc_free(inside, 0, 0, NULL);
	char *outside = stalloc_malloc(1 << 20, 0, NULL);
	CHECK(outside && outside != inside, "memory of a private pool was handed out outside");
	stalloc_free(outside, 0, 0, NULL);
	stalloc_release_pool(0, 7, 1);
	/* More than the device has, by blocks that outlive their pools. */
	for (uint64_t id = 8; id < 24; id++) {
		stalloc_begin_pool(0, id, 1, NULL);
		inside = stalloc_malloc(64 << 20, 0, NULL);
		stalloc_end_pool(0, id, 1);
		CHECK(inside, "pool %llu: %s", (ull)id, stalloc_last_error());
		stalloc_release_pool(0, id, 1);
		stalloc_free(inside, 0, 0, NULL);
	}
}

int main(void)
{
	setenv("FAKECUDA_CAPACITY", "268435456", 1);
	CHECK(stalloc_get_stats(99, NULL, 0) == STALLOC_ERR_ARGUMENT,
	      "an error before anything else");
	CHECK(stalloc_step(-1) == STALLOC_OK, "nothing was allocated yet");
	CHECK(stalloc_init() == STALLOC_OK && stalloc_init() == STALLOC_OK, "%s",
	      stalloc_last_error());
	stalloc_set_device_count(1);
	arguments();
	arguments_of_owner();
	statistics();
	CHECK(lines_about("not a live block", wrong_frees) == 1, "not one line about wrong frees");
	errors_belong_to_threads();
	private_pools();
	out_of_memory();
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0 && s.requested == 0 && s.blocks == 0 && s.active == 0,
	      "at the end %llu bytes", (ull)s.allocated);
	puts("edges: all as documented");
	return 0;
}
