/* Pause and resume of parts and of all, on one device and on all, while driver calls fail. Each
 * region is probed for what an error says has become of its device, and blocks that are awake are
 * checked: a call that says that it has changed nothing must not have. */
#include <stdio.h>
#include <string.h>

#include "model.h"

enum { UNCHANGED, DONE, EITHER };

static long most_calls = 40; /* driver calls that one takes at most, so far */

static bool names_region(const struct sleep_call *x, int region)
{
	return !x->mask || x->mask >> region & 1;
}

static bool names_device(const struct sleep_call *x, int device)
{
	return x->device < 0 || x->device == device;
}

/* Any call by its number, or one of a name; at times another, as of what undoes the first. */
static void inject_some(bool pauses)
{
	static const char *const down[] = {
		"cuMemUnmap",	     "cuMemUnmap",	   "cuMemUnmap",   "cuMemRelease",
		"cuMemMap",	     "cuMemSetAccess",	   "cuMemcpyDtoH", "cuCtxSynchronize",
		"cuMemHostRegister", "cuMemHostUnregister"};
	static const char *const up[] = {
		"cuMemCreate",	      "cuMemMap",   "cuMemMap",	    "cuMemSetAccess",
		"cuMemcpyHtoD",	      "cuMemUnmap", "cuMemRelease", "cuMemHostUnregister",
		"cuMemHostUnregister"};
	static const int codes[] = {2, 999, 1};
	char rules[200];
	int n = 0, code = codes[below(3)];
	for (uint64_t more = 1 + chance(3); more > 0; more--) {
		const char *name = pauses ? down[below(sizeof down / sizeof *down)]
					  : up[below(sizeof up / sizeof *up)];
		n += snprintf(rules + n, sizeof rules - (size_t)n, "%s", n ? "," : "");
		if (chance(8))
			n += snprintf(rules + n, sizeof rules - (size_t)n, "%s:*:%d", name, code);
		else if (chance(2))
			n += snprintf(rules + n, sizeof rules - (size_t)n, "%s:%d:%d", name,
				      1 + (int)below(6), code);
		else
			n += snprintf(rules + n, sizeof rules - (size_t)n, "*:%d:%d",
				      1 + (int)below((uint64_t)most_calls), code);
	}
	LOG("fail %s", rules);
	CHECK(fake(fail)(rules) == 0, "%s", rules);
	model.w->did.faults++;
}

static void perform(struct sleep_call *x, bool keep)
{
	const char *tags[REGIONS];
	size_t n = 0;
	for (int r = 1; r < REGIONS; r++)
		if (x->mask >> r & 1) tags[n++] = tag_of(r);
	long calls = fake(count)("*");
	if (x->rule[0])
		CHECK(fake(fail)(x->rule) == 0, "%s", x->rule);
	else if (x->fails)
		inject_some(x->pauses);
	if (x->pauses)
		x->result = stalloc_pause(x->device, tags, n,
					  keep ? STALLOC_BACKUP_HOST : STALLOC_BACKUP_DISCARD);
	else
		x->result = stalloc_resume(x->device, tags, n);
	snprintf(x->error, sizeof x->error, "%s",
		 x->result == STALLOC_OK ? "" : stalloc_last_error());
	if (x->fails && !x->pauses && chance(2))
		kit_sleep_ms(1 + (unsigned)below(4)); /* backups are dropped after it */
	if (x->fails) fake(fail)("");
	calls = fake(count)("*") - calls;
	LOG("%s device %d, regions %#x%s: %s", x->pauses ? "pause" : "resume", x->device, x->mask,
	    x->pauses && !keep ? " without a backup" : "", x->error);
	if (!x->fails && calls > most_calls) most_calls = calls < 400 ? calls : 400;
}

/* What has become of a device, as the call reports it. */
static int reported(const struct sleep_call *x, int device)
{
	char state[64];
	if (x->pauses && model.closed[device]) return UNCHANGED;
	if (x->result == STALLOC_OK) return DONE;
	if (x->device >= 0) return x->pauses && strstr(x->error, "it sleeps") ? DONE : UNCHANGED;
	snprintf(state, sizeof state, "device %d sleeps in part", device);
	if (strstr(x->error, state))
		return UNCHANGED; /* a part slept before, and nothing has changed */
	snprintf(state, sizeof state, "device %d sleeps", device);
	if (strstr(x->error, state)) return x->pauses ? DONE : UNCHANGED;
	snprintf(state, sizeof state, "device %d is awake", device);
	if (strstr(x->error, state)) return x->pauses ? UNCHANGED : DONE;
	if (run.devices == 1) return x->pauses && strstr(x->error, "it sleeps") ? DONE : UNCHANGED;
	return EITHER;
}

static enum answer probe(int device, int region)
{
	OK(region_begin(region));
	void *at = stalloc_malloc(700, device, NULL);
	enum answer state = answer_of(at, device, region);
	if (at) stalloc_free(at, 0, device, NULL);
	region_end(region);
	return state;
}

void region_is(int device, int region, bool asleep, const char *when)
{
	bool *known = &model.asleep[device][region];
	CHECK(*known == asleep || !region_has_blocks(device, region),
	      "after %s device %d, region %d %s", when, device, region,
	      asleep ? "sleeps, which is awake" : "is awake, which sleeps");
	*known = asleep;
}

/* A closed device's requests are served by the driver; its statistics say how much sleeps. */
static int probed_closed(const struct sleep_call *x, int device)
{
	return x->mask || kit_stats_of(device).asleep ? UNCHANGED : DONE;
}

/* Where a device is not reported: all that was named has changed, or nothing has. */
static int probed(const struct sleep_call *x, int device)
{
	if (model.closed[device]) return probed_closed(x, device);
	for (int r = 0; r < REGIONS; r++)
		if (names_region(x, r) && region_has_blocks(device, r) &&
		    model.asleep[device][r] != x->pauses) {
			enum answer state = probe(device, r);
			if (state != IS_FULL)
				return (state == IS_ASLEEP) == x->pauses ? DONE : UNCHANGED;
		}
	return UNCHANGED;
}

/* Without a backup, what has gone to sleep has lost its bytes, in a region that lends, too. */
static void update_model(const struct sleep_call *x, int device, bool keep)
{
	int now = reported(x, device);
	if (now == EITHER) now = probed(x, device);
	for (int i = 0; i < BLOCKS; i++) {
		struct block *b = &model.blocks[i];
		if (!b->p.at || b->p.device != device || !names_region(x, b->region) ||
		    b->plain || b->shared || model.asleep[device][b->region])
			continue;
		if (now == DONE && x->pauses && !keep) b->lost = true;
	}
	for (int r = 0; r < REGIONS; r++)
		if (names_region(x, r) && now == DONE) model.asleep[device][r] = x->pauses;
	if (model.closed[device]) return;
	char when[4500];
	snprintf(when, sizeof when, "%s of device %d, regions %#x, that said \"%s\"",
		 x->pauses ? "a pause" : "a resume", x->device, x->mask, x->error);
	for (int r = 0; r < REGIONS; r++) {
		enum answer state = probe(device, r);
		if (state != IS_FULL) region_is(device, r, state == IS_ASLEEP, when);
	}
}

/* An error has a reason: a call that fails, a closed device, or a name that is forgotten. */
static void check_error(const struct sleep_call *x)
{
	if (x->result == STALLOC_OK || x->fails || (x->device >= 0 && model.closed[x->device]))
		return;
	if (strstr(x->error, "known are"))
		for (int d = 0; d < run.devices; d++)
			for (int r = 1; r < REGIONS; r++)
				CHECK(!(x->mask >> r & 1) || !region_has_blocks(d, r),
				      "region %d has blocks: %s", r, x->error);
	else
		CHECK((!x->pauses && x->result == STALLOC_ERR_MEMORY) ||
			      strstr(x->error, "the host"),
		      "%s of device %d, regions %#x: %s", x->pauses ? "a pause" : "a resume",
		      x->device, x->mask, x->error);
}

static struct sleep_call random_call(bool pauses)
{
	struct sleep_call x = {.pauses = pauses,
			       .device = (int)below((uint64_t)run.devices + 1) - 1};
	if (chance(2)) x.mask = (unsigned)below(1 << REGIONS) & ~1u;
	x.fails = run.faults && chance(2);
	return x;
}

void sleep_call_play(struct sleep_call *x, bool keep)
{
	perform(x, keep);
	check_error(x);
	for (int d = 0; d < run.devices; d++)
		if (names_device(x, d)) update_model(x, d, keep);
	model.w->did.pauses += x->pauses && x->result == STALLOC_OK;
}

void pause_random(void)
{
	struct sleep_call x = random_call(true);
	bool keep = !chance(3);
	sleep_call_play(&x, keep);
	if (x.fails) model_check();
}

/* What is idle goes for what wakes: there is nothing to gain by giving it back first. */
static void resume_again(struct sleep_call *x)
{
	char why[sizeof x->error];
	memcpy(why, x->error, sizeof why);
	stalloc_empty_cache();
	sleep_call_play(x, false);
	CHECK(x->result != STALLOC_OK, "a resume failed beside idle memory: %s", why);
}

void resume_random(void)
{
	struct sleep_call x = random_call(false);
	if (chance(2)) kit_pass_all();
	sleep_call_play(&x, false);
	if (x.result == STALLOC_ERR_MEMORY && !run.faults) resume_again(&x);
	model_check();
}
