/* Pause and resume of parts and of all, on one device and on all, while driver calls fail. What an
 * error says has become of a device is asked of each region after it, and blocks that are awake
 * are looked at: what is said to have changed nothing must not have. */
#include <stdio.h>
#include <string.h>

#include "model.h"

enum { UNCHANGED, DONE, EITHER };

static long span = 40; /* driver calls that one takes at most, so far */

static bool meant(const struct dream *x, int region)
{
	return !x->mask || x->mask >> region & 1;
}

static bool of(const struct dream *x, int device)
{
	return x->device < 0 || x->device == device;
}

/* Any call by its number, or one of a name; at times another, as of what undoes the first. */
static void fail_some(bool pauses)
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
				      1 + (int)below((uint64_t)span), code);
	}
	TELL("fail %s", rules);
	CHECK(fake(fail)(rules) == 0, "%s", rules);
	night.w->did.mishaps++;
}

static void call(struct dream *x, bool keep)
{
	const char *tags[REGIONS];
	size_t n = 0;
	for (int r = 1; r < REGIONS; r++)
		if (x->mask >> r & 1) tags[n++] = tag_of(r);
	long calls = fake(count)("*");
	if (x->rule[0])
		CHECK(fake(fail)(x->rule) == 0, "%s", x->rule);
	else if (x->fails)
		fail_some(x->pauses);
	if (x->pauses)
		x->result = stalloc_pause(x->device, tags, n,
					  keep ? STALLOC_BACKUP_HOST : STALLOC_BACKUP_DISCARD);
	else
		x->result = stalloc_resume(x->device, tags, n);
	snprintf(x->why, sizeof x->why, "%s", x->result == STALLOC_OK ? "" : stalloc_last_error());
	if (x->fails && !x->pauses && chance(2))
		kit_sleep_ms(1 + (unsigned)below(4)); /* backups are dropped after it */
	if (x->fails) fake(fail)("");
	calls = fake(count)("*") - calls;
	TELL("%s device %d, regions %#x%s: %s", x->pauses ? "pause" : "resume", x->device, x->mask,
	     x->pauses && !keep ? " without a backup" : "", x->why);
	if (!x->fails && calls > span) span = calls < 400 ? calls : 400;
}

/* What has become of a device, as it is told. */
static int told(const struct dream *x, int device)
{
	char state[64];
	if (x->pauses && night.closed[device]) return UNCHANGED;
	if (x->result == STALLOC_OK) return DONE;
	if (x->device >= 0) return x->pauses && strstr(x->why, "it sleeps") ? DONE : UNCHANGED;
	snprintf(state, sizeof state, "device %d sleeps in part", device);
	if (strstr(x->why, state))
		return UNCHANGED; /* a part slept before, and nothing has changed */
	snprintf(state, sizeof state, "device %d sleeps", device);
	if (strstr(x->why, state)) return x->pauses ? DONE : UNCHANGED;
	snprintf(state, sizeof state, "device %d is awake", device);
	if (strstr(x->why, state)) return x->pauses ? UNCHANGED : DONE;
	if (life.devices == 1) return x->pauses && strstr(x->why, "it sleeps") ? DONE : UNCHANGED;
	return EITHER;
}

static enum answer ask(int device, int region)
{
	OK(region_begin(region));
	void *at = stalloc_malloc(700, device, NULL);
	enum answer is = answer_of(at, device, region);
	if (at) stalloc_free(at, 0, device, NULL);
	region_end(region);
	return is;
}

void dream_is(int device, int region, bool asleep, const char *when)
{
	bool *known = &night.asleep[device][region];
	CHECK(*known == asleep || !stays_in(device, region), "after %s device %d, region %d %s",
	      when, device, region, asleep ? "sleeps, which is awake" : "is awake, which sleeps");
	*known = asleep;
}

/* Asks a closed device, whose requests are served by others, by how much of it sleeps. */
static int seen_closed(const struct dream *x, int device)
{
	return x->mask || kit_stats_of(device).asleep ? UNCHANGED : DONE;
}

/* Where nothing is told of a device: all that is meant has changed, or nothing has. */
static int seen(const struct dream *x, int device)
{
	if (night.closed[device]) return seen_closed(x, device);
	for (int r = 0; r < REGIONS; r++)
		if (meant(x, r) && stays_in(device, r) && night.asleep[device][r] != x->pauses) {
			enum answer is = ask(device, r);
			if (is != IS_FULL) return (is == IS_ASLEEP) == x->pauses ? DONE : UNCHANGED;
		}
	return UNCHANGED;
}

/* Brings what is known up to what is told. Without a backup, what has gone to sleep has lost its
 * bytes. */
static void settle(const struct dream *x, int device, bool keep)
{
	int now = told(x, device);
	if (now == EITHER) now = seen(x, device);
	for (int i = 0; i < STAYS; i++) {
		struct stay *s = &night.stays[i];
		if (!s->p.at || s->p.device != device || !meant(x, s->region) || !stay_awake(s))
			continue;
		if (now == DONE && x->pauses && !keep && !s->shared && !s->plain) s->lost = true;
	}
	for (int r = 0; r < REGIONS; r++)
		if (meant(x, r) && now == DONE) night.asleep[device][r] = x->pauses;
	if (night.closed[device]) return;
	char when[4500];
	snprintf(when, sizeof when, "%s of device %d, regions %#x, that said \"%s\"",
		 x->pauses ? "a pause" : "a resume", x->device, x->mask, x->why);
	for (int r = 0; r < REGIONS; r++) {
		enum answer is = ask(device, r);
		if (is != IS_FULL) dream_is(device, r, is == IS_ASLEEP, when);
	}
}

/* An error has a reason: a call that fails, a closed device, or a name that is forgotten. */
static void excused(const struct dream *x)
{
	if (x->result == STALLOC_OK || x->fails || (x->device >= 0 && night.closed[x->device]))
		return;
	if (strstr(x->why, "known are"))
		for (int d = 0; d < life.devices; d++)
			for (int r = 1; r < REGIONS; r++)
				CHECK(!(x->mask >> r & 1) || !stays_in(d, r),
				      "region %d has blocks: %s", r, x->why);
	else
		CHECK((!x->pauses && x->result == STALLOC_ERR_MEMORY) || strstr(x->why, "the host"),
		      "%s of device %d, regions %#x: %s", x->pauses ? "a pause" : "a resume",
		      x->device, x->mask, x->why);
}

static struct dream some(bool pauses)
{
	struct dream x = {.pauses = pauses, .device = (int)below((uint64_t)life.devices + 1) - 1};
	if (chance(2)) x.mask = (unsigned)below(1 << REGIONS) & ~1u;
	x.fails = life.mishaps && chance(2);
	return x;
}

void dream_play(struct dream *x, bool keep)
{
	call(x, keep);
	excused(x);
	for (int d = 0; d < life.devices; d++)
		if (of(x, d)) settle(x, d, keep);
	night.w->did.naps += x->pauses && x->result == STALLOC_OK;
}

void dream_begin(void)
{
	struct dream x = some(true);
	bool keep = !chance(3);
	dream_play(&x, keep);
	if (x.fails) stays_look();
}

/* What is idle goes for what wakes: there is nothing to gain by giving it back first. */
static void again(struct dream *x)
{
	char why[sizeof x->why];
	memcpy(why, x->why, sizeof why);
	stalloc_empty_cache();
	dream_play(x, false);
	CHECK(x->result != STALLOC_OK, "a resume failed beside idle memory: %s", why);
}

void dream_end(void)
{
	struct dream x = some(false);
	if (chance(2)) kit_pass_all();
	dream_play(&x, false);
	if (x.result == STALLOC_ERR_MEMORY && !life.mishaps) again(&x);
	stays_look();
}
