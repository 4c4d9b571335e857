/* The steps of a modelled run: see model.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

struct model model;

/* Limits, as the driver counts: no call makes a device hold more than its limit, or more than it
 * held before. A closed device has plain driver allocations, beside what still sleeps. */
static size_t limits[DEVICES]; /* 0: not set */
static size_t held[DEVICES];   /* when the last call was over */

/* What STALLOC_CONF allows. */
static size_t configured_limit(void)
{
	return strstr(getenv("STALLOC_CONF"), ",limit:60%") ? (size_t)((double)run.capacity * 0.6)
							    : run.capacity;
}

static void limit_set(int device, double fraction)
{
	CHECK(stalloc_set_memory_fraction(fraction, device) == STALLOC_OK || model.closed[device],
	      "%s", stalloc_last_error());
	LOG("limit device %d to %g", device, fraction);
	limits[device] = (size_t)((double)run.capacity * fraction);
}

static void limits_check(void)
{
	for (int d = 0; d < run.devices; d++) {
		size_t limit = configured_limit();
		if (limits[d] && limits[d] < limit) limit = limits[d];
		size_t peak = (size_t)fake(most)(d), now = (size_t)fake(most)(d);
		CHECK(model.closed[d] || peak <= limit || peak <= held[d],
		      "device %d held %zu bytes, of %zu that it may, and %zu before", d, peak,
		      limit, held[d]);
		held[d] = now;
	}
}

/* Work passes by itself where the thread waits for the device. */
static _Atomic uint64_t steps_done;
static void *device_progress(void *unused)
{
	for (uint64_t last = 0; !atomic_load(&over); kit_sleep_ms(50)) {
		uint64_t now = atomic_load(&steps_done);
		if (now == last) fake(pass)(now, 1000);
		last = now;
	}
	return unused;
}

static void close_one(void)
{
	int device = (int)below((uint64_t)run.devices), open = 0;
	for (int d = 0; d < run.devices; d++) open += !model.closed[d];
	if (open < 2) return;
	graphs_drop(device);
	CHECK(stalloc_close(device) == STALLOC_OK || run.faults, "%s", stalloc_last_error());
	model.closed[device] = true;
	LOG("close %d", device);
}

static void rare_step(void)
{
	uint64_t dice = below(100);
	int device = (int)below((uint64_t)run.devices);
	if (dice < 25)
		CHECK(stalloc_step(chance(2) ? -1 : device) == STALLOC_OK, "%s",
		      stalloc_last_error());
	else if (dice < 40)
		stalloc_empty_cache();
	else if (dice < 60)
		model_check();
	else if (dice < 75 && run.limits)
		limit_set(device, chance(3) ? 1 : 0.2 + (double)below(800) / 1000);
	else if (dice < 80 && run.closes)
		close_one();
	else if (dice < 94)
		stream_replace();
	else if (model.captures)
		capture_play();
}

/* A request, a use or a free. A device's first request does not fail: it finds out what the device
 * can do. */
static void block_step(bool uses)
{
	struct block *b = &model.blocks[below(BLOCKS)];
	bool known = true;
	for (int d = 0; d < run.devices; d++) known = known && model.w->served[d] > 0;
	model.fails = known && chance(3) && inject_fault();
	if (!b->p.at)
		model_malloc(b);
	else if (uses)
		model_record_stream(b);
	else
		model_free(b);
	if (model.fails) fake(fail)("");
	model.fails = false;
}

static void play_step(void)
{
	uint64_t dice = below(1000);
	if (dice < 600)
		block_step(dice >= 520);
	else if (dice < 740)
		pass_some();
	else if (dice < 810 && model.exports)
		token_play();
	else if (dice < 845)
		pause_random();
	else if (dice < 900)
		resume_random();
	else if (dice < 935)
		lend_begin();
	else if (dice < 970)
		lend_end();
	else if (dice < 976 && run.faults)
		fault_sweep();
	else if (dice < 988 && model.graphs)
		graph_play();
	else
		rare_step();
	limits_check();
	atomic_fetch_add(&steps_done, 1);
	kit_progress();
}

/* More may sleep than a device has: then one region at a time is resumed, and what is awake is
 * freed for the next. */
static void resume_regions(void)
{
	struct sleep_call x = {.device = -1};
	for (int rounds = 0; rounds < 2 * REGIONS; rounds++) {
		x.mask = 0;
		sleep_call_play(&x, false);
		if (x.result == STALLOC_OK) return;
		for (int r = 1; r < REGIONS; r++) {
			x.mask = 1u << r;
			sleep_call_play(&x, false);
		}
		model_free_awake();
	}
	CHECK(false, "it does not wake: %s", x.error);
}

/* At the end of the run all is awake. */
static void resume_all(void)
{
	resume_regions();
	lends_close();
	for (int d = 0; d < run.devices; d++) {
		struct stalloc_stats s = kit_stats_of(d);
		CHECK(s.asleep == 0, "device %d is awake: %llu bytes sleep", d, (ull)s.asleep);
	}
	model_check();
}

void modelled_play(struct worker *w, double seconds)
{
	double start = kit_seconds();
	model.w = w;
	model.logs = kit_number("CAMPAIGN_LOG", 0);
	model.exports = kit_below(&w->random, 2);
	model.captures = kit_below(&w->random, 3) == 0;
	model.graphs = kit_below(&w->random, 2);
	/* GMLake's algorithm lends nothing */
	model.single = kit_below(&w->random, 3) == 0 && !run.limits &&
			!strstr(getenv("STALLOC_CONF"), "pool:gmlake");
	streams_open();
	regions_open();
	pthread_t device = kit_thread(device_progress, NULL);
	if (model.single) single_play();
	while (kit_seconds() - start < seconds) play_step();
	for (int d = 0; d < run.devices; d++) limit_set(d, 1);
	graphs_drop(-1); /* they may have what sleeping memory needs to wake */
	resume_all();
	for (int i = 0; i < BLOCKS; i++) model_free(&model.blocks[i]);
	tokens_close();
	streams_close();
	atomic_store(&over, true);
	pthread_join(device, NULL);
	w->did.modelled++;
}
