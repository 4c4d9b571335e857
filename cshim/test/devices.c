/* Regions and sleep on several devices: some of them closed, and one that fails.
 * FAKECUDA_DEVICES: 3. */
#include <stdio.h>
#include <string.h>

#include "kit.h"

enum { DEVICES = 3 };
static const size_t size = 8 << 20;
static const char *const weights[] = {"weights"};
static char *blocks[DEVICES], *rest[DEVICES];

static char *get(int device)
{
	char *at = kit_get(size, device, NULL);
	kit_fill(at, size, (uint64_t)device);
	return at;
}

static uint64_t asleep(int device)
{
	return kit_stats_of(device).asleep;
}

static void check(void)
{
	for (int i = 0; i < DEVICES; i++)
		CHECK(kit_damage(blocks[i], size, (uint64_t)i) < 0 &&
			      kit_damage(rest[i], size, (uint64_t)i) < 0,
		      "device %d is damaged", i);
}

/* A device that is closed has plain memory from then on, which nobody can have sleep, whether it
 * was the only one in use or had nothing yet. */
static void regions_without_device_0(void)
{
	char *only = get(0);
	OK(stalloc_close(0));
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST)); /* the others have nothing */
	stalloc_free(only, 0, 0, NULL);
	for (int i = 0; i < DEVICES; i++) {
		OK(stalloc_begin_region(weights[0]));
		blocks[i] = get(i);
		OK(stalloc_end_region());
		rest[i] = get(i);
	}
	OK(stalloc_pause(1, weights, 1, STALLOC_BACKUP_HOST));
	CHECK(asleep(1) == size && asleep(2) == 0, "%llu sleep", (ull)asleep(1));
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	CHECK(asleep(0) == 0 && asleep(1) == 2 * size && asleep(2) == 2 * size, "%llu sleep",
	      (ull)asleep(2));
	SAYS(stalloc_pause(0, NULL, 0, STALLOC_BACKUP_HOST) == STALLOC_ERR_ENGINE,
	     "cannot sleep: it was closed");
	OK(stalloc_resume(-1, NULL, 0));
	check();
}

static void one_does_not_sleep(void)
{
	stalloc_begin_pool(1, 5, 7, NULL);
	SAYS(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST) == STALLOC_ERR_DRIVER,
	     "device 1 is awake: a CUDA graph is being captured, or may be");
	SAYS(true, "; device 2 sleeps");
	CHECK(asleep(1) == 0 && asleep(2) == 2 * size, "%llu, %llu", (ull)asleep(1),
	      (ull)asleep(2));
	stalloc_end_pool(1, 5, 7);
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	OK(stalloc_resume(-1, NULL, 0));
	check();
}

static void one_does_not_wake(void)
{
	char rules[64];
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	long made = fake(count)("cuMemCreate");
	OK(stalloc_resume(-1, NULL, 0));
	made = fake(count)("cuMemCreate") - made;
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	/* The last, device 2's, and the next: once idle memory is given back it is tried again. */
	snprintf(rules, sizeof rules, "cuMemCreate:%ld:2,cuMemCreate:%ld:2", made, made + 1);
	CHECK(fake(fail)(rules) == 0, "%s", rules);
	SAYS(stalloc_resume(-1, NULL, 0) == STALLOC_ERR_MEMORY,
	     "device 1 is awake; device 2 sleeps: ");
	fake(fail)(NULL);
	CHECK(asleep(1) == 0 && asleep(2) == 2 * size, "%llu, %llu", (ull)asleep(1),
	      (ull)asleep(2));
	OK(stalloc_resume(-1, NULL, 0));
	check();
}

/* What sleeps on a device that is closed wakes. */
static void closed_asleep(void)
{
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	OK(stalloc_close(1));
	OK(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST));
	OK(stalloc_resume(-1, NULL, 0));
	CHECK(asleep(1) == 0, "%llu sleep on", (ull)asleep(1));
	check();
	OK(stalloc_close(-1));
	OK(stalloc_begin_region("late"));
	OK(stalloc_end_region());
	SAYS(stalloc_pause(-1, NULL, 0, STALLOC_BACKUP_HOST) == STALLOC_ERR_ENGINE,
	     "it was closed");
}

int main(void)
{
	kit_watchdog(60);
	regions_without_device_0();
	one_does_not_sleep();
	one_does_not_wake();
	closed_asleep();
	for (int i = 0; i < DEVICES; i++) {
		stalloc_free(blocks[i], 0, i, NULL);
		stalloc_free(rest[i], 0, i, NULL);
	}
	CHECK(fake(live)("handles") == 0 && fake(live)("blocks") == 0,
	      "the driver has not got everything back");
	puts("devices: regions, and which sleep");
	return 0;
}
