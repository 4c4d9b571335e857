/* Regions that lend their memory: nothing touches their blocks between stalloc_end_awake and
 * stalloc_begin_awake, and after that each byte is as it was, whatever happened meanwhile: other
 * blocks there, pauses, limits and failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../tests/fakecuda/fakecuda.h"
#include "model.h"

static void *any_stream(int device)
{
	return model.streams[device][below(STREAMS)];
}

static bool any_lent_on(int device)
{
	for (int r = 1; r < REGIONS; r++)
		if (model.lent[device][r]) return true;
	return false;
}

static bool any_lent(void)
{
	for (int d = 0; d < run.devices; d++)
		if (any_lent_on(d)) return true;
	return false;
}

bool inject_fault(void)
{
	static const char *const names[] = {
		"cuMemCreate",	 "cuMemMap",	       "cuMemSetAccess",    "cuMemUnmap",
		"cuMemRelease",	 "cuMemcpyDtoHAsync",  "cuMemcpyHtoDAsync", "cuEventRecord",
		"cuEventQuery",	 "cuStreamWaitEvent",  "cuCtxSynchronize",  "cuStreamCreate",
		"cuEventCreate", "cuMemHostRegister"};
	char rule[64];
	if (!run.faults || !chance(3)) return false;
	snprintf(rule, sizeof rule, "%s:%d:2", names[below(sizeof names / sizeof *names)],
		 1 + (int)below(6));
	CHECK(fake(fail)(rule) == 0, "%s", rule);
	LOG("fail %s", rule);
	model.w->did.faults++;
	return true;
}

/* Lends a region, once its last work is queued on one stream. */
void lend_begin(void)
{
	int device = (int)below((uint64_t)run.devices), r = 1 + (int)below(REGIONS - 1);
	if (strstr(getenv("STALLOC_CONF"), "pool:gmlake")) return; /* nothing lends there */
	if (model.closed[device] || model.asleep[device][r] || model.lent[device][r] ||
	    !region_has_blocks(device, r))
		return;
	void *stream = any_stream(device);
	region_read(device, r, stream, false);
	bool fails = inject_fault(), *written = &model.written[device][r];
	int how = (*written || chance(2) ? STALLOC_CHANGED : 0) |
		  (chance(3) ? STALLOC_ALL_LEAVES : 0) | (chance(3) ? STALLOC_MORE_FOLLOW : 0);
	int result = stalloc_end_awake(device, tag_of(r), stream, how);
	const char *error = result == STALLOC_OK ? "" : stalloc_last_error();
	if (fails) fake(fail)("");
	LOG("lend device %d, region %d, how %d: %s", device, r, how, error);
	CHECK(result == STALLOC_OK || fails, "%s", error);
	model.lent[device][r] = result == STALLOC_OK;
	*written = *written && result != STALLOC_OK;
	model.w->did.lends += result == STALLOC_OK;
}

/* A new block of a region that was just opened: its stream waits for the copies by itself. */
static void malloc_early(int device, int r)
{
	struct block *b = &model.blocks[below(BLOCKS)];
	int n = (int)below(STREAMS);
	if (b->p.at) return;
	model_malloc_in(b, device, r, n);
	fake(pass_stream)(model.streams[device][n]);
}

static void reopen(int device, int r)
{
	void *stream = any_stream(device);
	bool fails = inject_fault();
	int result = stalloc_begin_awake(device, tag_of(r), stream);
	const char *error = result == STALLOC_OK ? "" : stalloc_last_error();
	if (fails) fake(fail)("");
	LOG("open device %d, region %d: %s", device, r, error);
	CHECK(result == STALLOC_OK || fails || model.asleep[device][r] ||
		      strstr(error, "is reached") || strstr(error, "no memory left") ||
		      strstr(error, "known are"),
	      "%s", error);
	if (result != STALLOC_OK) return;
	CHECK(!model.asleep[device][r] || !region_has_blocks(device, r), "what sleeps was opened");
	model.lent[device][r] = false;
	malloc_early(device, r);
	region_read(device, r, stream, true);
}

void lend_end(void)
{
	int device = (int)below((uint64_t)run.devices), r = 1 + (int)below(REGIONS - 1);
	if (!model.lent[device][r]) return;
	if (chance(3)) {
		bool fails = inject_fault();
		int result = stalloc_prefetch(device, tag_of(r));
		if (fails) fake(fail)("");
		CHECK(result == STALLOC_OK || fails || !region_has_blocks(device, r), "%s",
		      stalloc_last_error());
	}
	if (chance(2)) pass_some();
	reopen(device, r);
}

/* In the end each region is opened and freed, one at a time. Nothing sleeps. */
void lends_close(void)
{
	for (int rounds = 0; any_lent(); rounds++) {
		CHECK(rounds < 2 * REGIONS, "it does not open: %s", stalloc_last_error());
		for (int d = 0; d < run.devices; d++)
			for (int r = 1; r < REGIONS; r++)
				if (model.lent[d][r]) reopen(d, r);
		model_check();
		model_free_awake();
	}
	for (int i = 0; i < BLOCKS; i++)
		if (model.blocks[i].region) model_free(&model.blocks[i]);
	kit_pass_all();
	stalloc_empty_cache();
}
