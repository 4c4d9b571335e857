/* Regions that lend their memory: nothing touches their blocks between stalloc_end_awake and
 * stalloc_begin_awake, and after that each byte is as it was, whatever happened meanwhile: other
 * blocks there, pauses, limits and failures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../tests/fakecuda/fakecuda.h"
#include "model.h"

static void *stream_of(int device)
{
	return night.lanes[device][below(LANES)];
}

static bool has_lent(int device)
{
	for (int r = 1; r < REGIONS; r++)
		if (night.lent[device][r]) return true;
	return false;
}

bool loans_any(void)
{
	for (int d = 0; d < life.devices; d++)
		if (has_lent(d)) return true;
	return false;
}

bool call_fails(void)
{
	static const char *const names[] = {
		"cuMemCreate",	 "cuMemMap",	       "cuMemSetAccess",    "cuMemUnmap",
		"cuMemRelease",	 "cuMemcpyDtoHAsync",  "cuMemcpyHtoDAsync", "cuEventRecord",
		"cuEventQuery",	 "cuStreamWaitEvent",  "cuCtxSynchronize",  "cuStreamCreate",
		"cuEventCreate", "cuMemHostRegister"};
	char rule[64];
	if (!life.mishaps || !chance(3)) return false;
	snprintf(rule, sizeof rule, "%s:%d:2", names[below(sizeof names / sizeof *names)],
		 1 + (int)below(6));
	CHECK(fake(fail)(rule) == 0, "%s", rule);
	TELL("fail %s", rule);
	night.w->did.mishaps++;
	return true;
}

/* Lends a region, once its last work is queued on one stream. */
void loan_begin(void)
{
	int device = (int)below((uint64_t)life.devices), r = 1 + (int)below(REGIONS - 1);
	if (strstr(getenv("STALLOC_CONF"), "pool:gmlake")) return; /* nothing lends there */
	if (night.closed[device] || night.asleep[device][r] || night.lent[device][r] ||
	    !stays_in(device, r))
		return;
	void *stream = stream_of(device);
	stays_touch(device, r, stream, false);
	bool fails = call_fails(), *written = &night.written[device][r];
	int how = (*written || chance(2) ? STALLOC_CHANGED : 0) |
		  (chance(3) ? STALLOC_ALL_LEAVES : 0) | (chance(3) ? STALLOC_MORE_FOLLOW : 0);
	int result = stalloc_end_awake(device, tag_of(r), stream, how);
	const char *why = result == STALLOC_OK ? "" : stalloc_last_error();
	if (fails) fake(fail)("");
	TELL("lend device %d, region %d, how %d: %s", device, r, how, why);
	CHECK(result == STALLOC_OK || fails, "%s", why);
	night.lent[device][r] = result == STALLOC_OK;
	*written = *written && result != STALLOC_OK;
	night.w->did.loans += result == STALLOC_OK;
}

/* A new block of a region that was just opened: its stream waits for the copies by itself. */
static void get_early(int device, int r)
{
	struct stay *s = &night.stays[below(STAYS)];
	int lane = (int)below(LANES);
	if (s->p.at) return;
	stay_get_in(s, device, r, lane);
	fake(pass_stream)(night.lanes[device][lane]);
}

static void end(int device, int r)
{
	void *stream = stream_of(device);
	bool fails = call_fails();
	int result = stalloc_begin_awake(device, tag_of(r), stream);
	const char *why = result == STALLOC_OK ? "" : stalloc_last_error();
	if (fails) fake(fail)("");
	TELL("open device %d, region %d: %s", device, r, why);
	CHECK(result == STALLOC_OK || fails || night.asleep[device][r] ||
		      strstr(why, "is reached") || strstr(why, "no memory left") ||
		      strstr(why, "known are"),
	      "%s", why);
	if (result != STALLOC_OK) return;
	CHECK(!night.asleep[device][r] || !stays_in(device, r), "what sleeps was opened");
	night.lent[device][r] = false;
	get_early(device, r);
	stays_touch(device, r, stream, true);
}

void loan_end(void)
{
	int device = (int)below((uint64_t)life.devices), r = 1 + (int)below(REGIONS - 1);
	if (!night.lent[device][r]) return;
	if (chance(3)) {
		bool fails = call_fails();
		int result = stalloc_prefetch(device, tag_of(r));
		if (fails) fake(fail)("");
		CHECK(result == STALLOC_OK || fails || !stays_in(device, r), "%s",
		      stalloc_last_error());
	}
	if (chance(2)) pass_some();
	end(device, r);
}

/* In the end each region is opened and freed, one at a time. Nothing sleeps. */
void loans_close(void)
{
	for (int rounds = 0; loans_any(); rounds++) {
		CHECK(rounds < 2 * REGIONS, "it does not open: %s", stalloc_last_error());
		for (int d = 0; d < life.devices; d++)
			for (int r = 1; r < REGIONS; r++)
				if (night.lent[d][r]) end(d, r);
		stays_look();
		for (int i = 0; i < STAYS; i++)
			if (stay_awake(&night.stays[i])) stay_give(&night.stays[i]);
		kit_pass_all();
		stalloc_empty_cache();
	}
	for (int i = 0; i < STAYS; i++)
		if (night.stays[i].region) stay_give(&night.stays[i]);
	kit_pass_all();
	stalloc_empty_cache();
}
