/* Plain allocations serve, and the driver does not take a block back: it stays in the figures,
 * the log says so, and it goes back once the driver takes it, in a capture, too. The figures keep
 * the peak. Run without an engine. */
#include <stdio.h>

#include "kit.h"

static const size_t size = 64 << 20;

static void as_the_driver_says(const char *after, long blocks)
{
	struct stalloc_stats s = kit_stats();
	CHECK(fake(live)("blocks") == blocks && s.reserved == (uint64_t)blocks * size &&
		      s.blocks == 0,
	      "after %s: %llu bytes in %llu blocks, the driver has %ld blocks, expected are %ld",
	      after, (ull)s.reserved, (ull)s.blocks, fake(live)("blocks"), blocks);
}

/* A driver that takes no block back is not asked about all of them each time. */
static void for_good(void)
{
	enum { N = 300 };
	void *p[N];
	for (int i = 0; i < N; i++) p[i] = kit_get(4096, 0, NULL);
	fake(fail)("cuMemFree:*:999");
	long before = fake(count)("cuMemFree");
	for (int i = 0; i < N; i++) stalloc_free(p[i], 0, 0, NULL);
	long calls = fake(count)("cuMemFree") - before;
	CHECK(calls <= 10 * N, "%d blocks were freed by %ld calls", N, calls);
	fake(fail)("");
	stalloc_empty_cache();
	as_the_driver_says("a driver that takes nothing", 0);
}

static void the_peak_is(uint64_t bytes, const char *when)
{
	struct stalloc_stats s = kit_stats();
	CHECK(s.peak_reserved == bytes, "%llu bytes at the peak, expected are %llu %s",
	      (ull)s.peak_reserved, (ull)bytes, when);
}

static void peaks(void)
{
	void *p = kit_get(size, 0, NULL);
	stalloc_free(kit_get(2 * size, 0, NULL), 0, 0, NULL);
	the_peak_is(3 * size, "behind a free");
	OK(stalloc_reset_peak(0));
	the_peak_is(size, "of what is held at a reset");
	stalloc_free(p, 0, 0, NULL);
	the_peak_is(size, "since a reset");
}

int main(void)
{
	static const char *const calls[] = {"cuMemFree:*:999", "cuCtxPushCurrent:*:999",
					    "cuInit:*:999"};
	kit_watchdog(30);
	peaks();
	kit_stderr_begin();
	for (int i = 0; i < 6; i++) {
		void *p = kit_get(size, 0, NULL);
		fake(fail)(calls[i % 3]);
		stalloc_free(p, 0, 0, NULL);
		stalloc_empty_cache();
		fake(fail)("");
		as_the_driver_says(calls[i % 3], 1);
		if (i % 2)
			stalloc_empty_cache();
		else
			stalloc_free(stalloc_malloc(size, 0, NULL), 0, 0, NULL);
		as_the_driver_says("a second try", 0);
	}
	CHECK(kit_stderr_end("cannot be given back to the driver yet") == 1,
	      "nothing was said of it, or too much");
	void *p = stalloc_malloc(size, 0, NULL);
	CHECK(fake(capture_begin)((void *)0x1000) >= 0, "no capture");
	stalloc_free(p, 0, 0, NULL);
	CHECK(fake(capture_end)((void *)0x1000) == 1, "the capture was invalidated");
	as_the_driver_says("a capture", 0);
	for_good();
	puts("failed_frees: no block was forgotten");
	return 0;
}
