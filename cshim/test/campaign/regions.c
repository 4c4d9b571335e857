/* Regions that sleep or lend their memory, and blocks that are exported. Each worker has its own
 * region on each device, so no other touches what sleeps. Its blocks live on between pauses. */
#include <stdio.h>
#include <string.h>

#include "run.h"

enum { BLOCKS = 12, TRIES = 20 };

static struct region {
	struct tracked p[BLOCKS];
	bool asleep, kept; /* with its contents */
	bool lent, intact; /* nobody touches it; it has not slept without a backup */
} regions[DEVICES][THREADS];

static const char *tag_of(const struct worker *w, char *text, size_t n)
{
	snprintf(text, n, "worker %d", w->id);
	return text;
}

/* Allocates and frees some of the blocks. */
static void churn(struct worker *w, struct region *r, int device, void *stream)
{
	for (int i = 0; i < 2 * BLOCKS; i++) {
		struct tracked *p = &r->p[kit_below(&w->random, BLOCKS)];
		if (!p->at)
			tracked_malloc(w, p, random_size(w), device, stream);
		else if (kit_below(&w->random, 8) == 0)
			tracked_record_stream(w, p);
		else
			tracked_free(w, p);
	}
}

/* What this process exports it can import, too: the same bytes at another address. */
static void export(struct worker *w, const struct tracked *p)
{
	char token[4096];
	size_t offset = 0;
	if (!p->at) return;
	long n = stalloc_export_block(p->at, &offset, token, sizeof token);
	if (n < 0 || (size_t)n >= sizeof token) {
		CHECK(n >= 0 || *stalloc_last_error(), "no token, and nothing said");
		return;
	}
	struct tracked there = *p;
	char *at = stalloc_import_block(token, p->device);
	if (!at) {
		CHECK(run.faults || strstr(stalloc_last_error(), "cannot be mapped here"), "%s",
		      stalloc_last_error()); /* no file descriptors are left */
		return;
	}
	there.at = at + offset;
	tracked_check(&there);
	CHECK(stalloc_end_import(at) == STALLOC_OK || run.faults, "%s", stalloc_last_error());
	w->did.exports++;
}

static bool pause_now(struct worker *w, struct region *r, int device)
{
	char text[32];
	const char *tag = tag_of(w, text, sizeof text);
	r->kept = kit_below(&w->random, 2);
	int result = stalloc_pause(device, &tag, 1,
				   r->kept ? STALLOC_BACKUP_HOST : STALLOC_BACKUP_DISCARD);
	const char *error = result == STALLOC_OK ? "" : stalloc_last_error();
	CHECK(result == STALLOC_OK || run.faults || !run.no_fallback ||
		      strstr(error, "being captured") || strstr(error, "pool:gmlake"),
	      "%s", error);
	r->asleep = result == STALLOC_OK || strstr(error, "it sleeps");
	w->did.pauses += r->asleep;
	return r->asleep;
}

/* It is refused, or its device is served by plain driver allocations by now. */
static void request(struct worker *w, int device, void *stream)
{
	struct tracked p;
	if (kit_below(&w->random, 2)) {
		if (run.no_fallback && !run.open_pools) /* which come before regions */
			CHECK(!stalloc_malloc(1000, device, stream) &&
				      strstr(stalloc_last_error(), "sleeps"),
			      "a request of what sleeps: %s", stalloc_last_error());
	} else {
		stalloc_end_region();
		tracked_malloc(w, &p, random_size(w), device, stream); /* of what does not */
		tracked_free(w, &p);
		char text[32];
		CHECK(stalloc_begin_region(tag_of(w, text, sizeof text)) == STALLOC_OK ||
			      run.faults,
		      "%s", stalloc_last_error());
	}
}

/* After an error: gives idle memory back, so that the caller can try again. False: often enough. */
static bool try_again(int tries)
{
	const char *error = stalloc_last_error();
	CHECK(!run.no_oom || !run.no_fallback || strstr(error, "being captured"), "%s", error);
	if (tries == TRIES) return false;
	stalloc_empty_cache();
	kit_progress();
	return true;
}

/* Wakes it. False: it stays asleep, as it may if memory is short. */
static bool resume(struct worker *w, struct region *r, int device)
{
	char text[32];
	const char *tag = tag_of(w, text, sizeof text);
	for (int i = 0; stalloc_resume(device, &tag, 1) != STALLOC_OK; i++)
		if (!try_again(i)) return false;
	r->asleep = false;
	for (int i = 0; i < BLOCKS; i++) tracked_resumed(&r->p[i], r->kept);
	return true;
}

/* While it sleeps, its blocks can be freed, and other requests are served. */
static void while_asleep(struct worker *w, struct region *r, int device, void *stream)
{
	for (int i = 0; i < BLOCKS; i++)
		if (r->p[i].at && kit_below(&w->random, 4) == 0) tracked_free_asleep(w, &r->p[i]);
	request(w, device, stream);
}

static bool lend(struct worker *w, struct region *r, int device, void *stream)
{
	char text[32];
	int how = (int)kit_below(&w->random, 4) * STALLOC_ALL_LEAVES; /* or more follow, or both */
	int result = stalloc_end_awake(device, tag_of(w, text, sizeof text), stream,
				       STALLOC_CHANGED | how);
	CHECK(result == STALLOC_OK || run.faults || !run.no_fallback ||
		      strstr(stalloc_last_error(), "known are"),
	      "%s", stalloc_last_error());
	w->did.lends += result == STALLOC_OK;
	return r->lent = r->intact = result == STALLOC_OK;
}

/* Uses it again. False: it stays lent, as it may if memory is short. */
static bool reopen(struct worker *w, struct region *r, int device, void *stream)
{
	char text[32];
	const char *tag = tag_of(w, text, sizeof text);
	for (int i = 0; stalloc_begin_awake(device, tag, stream) != STALLOC_OK; i++) {
		if (strstr(stalloc_last_error(), "known are")) break; /* it has no blocks */
		if (!try_again(i)) return false;
	}
	r->lent = false;
	for (int i = 0; i < BLOCKS; i++) tracked_resumed(&r->p[i], r->intact);
	return true;
}

void region_play(struct worker *w)
{
	char text[32];
	int device = (int)kit_below(&w->random, (uint64_t)run.devices);
	struct region *r = &regions[device][w->id - 1];
	if (r->asleep && !resume(w, r, device)) return;
	int slot = slot_acquire(w, device, 0);
	bool open = !r->lent || reopen(w, r, device, slot_stream(slot));
	if (!open || stalloc_begin_region(tag_of(w, text, sizeof text)) != STALLOC_OK) {
		CHECK(!open || run.faults, "%s", stalloc_last_error());
		slot_release(slot);
		return;
	}
	churn(w, r, device, slot_stream(slot));
	if (kit_below(&w->random, 3) == 0) export(w, &r->p[kit_below(&w->random, BLOCKS)]);
	if (kit_below(&w->random, 2))
		lend(w, r, device, slot_stream(slot));
	else if (pause_now(w, r, device))
		while_asleep(w, r, device, slot_stream(slot));
	CHECK(stalloc_end_region() == STALLOC_OK || run.faults, "%s", stalloc_last_error());
	slot_release(slot);
	if (r->lent && kit_below(&w->random, 2))
		stalloc_prefetch(device, tag_of(w, text, sizeof text));
	if (!r->asleep) return;
	if (kit_below(&w->random, 2)) steps_play(w);
	resume(w, r, device);
}

/* All regions are awake. */
static void check_all(bool kept)
{
	for (int d = 0; d < run.devices; d++)
		for (int t = 0; t < run.threads; t++) {
			struct region *r = &regions[d][t];
			r->intact = r->intact && kept; /* a capture may have kept it open */
			for (int i = 0; i < BLOCKS && !r->lent; i++)
				tracked_resumed(&r->p[i], r->asleep ? r->kept : kept);
			r->asleep = false;
		}
}

/* All threads stop: all memory sleeps, and after it wakes the blocks of all threads are checked. If
 * other blocks have taken the memory of what slept before, not all could wake; nor if more is live
 * than a limit that was set later. */
void pause_all(struct worker *w)
{
	for (int d = 0; run.limits && d < run.devices; d++) stalloc_set_memory_fraction(1, d);
	if (stalloc_resume(-1, NULL, 0) != STALLOC_OK) return;
	check_all(true);
	bool keep = kit_below(&w->random, 2), step = kit_below(&w->random, 2);
	int result =
		stalloc_pause(-1, NULL, 0, keep ? STALLOC_BACKUP_HOST : STALLOC_BACKUP_DISCARD);
	CHECK(result == STALLOC_OK || !run.no_fallback ||
		      strstr(stalloc_last_error(), "pool:gmlake"),
	      "%s", stalloc_last_error());
	if (result == STALLOC_OK && run.no_fallback)
		CHECK(!stalloc_malloc(1000, 0, NULL) && strstr(stalloc_last_error(), "sleeps"),
		      "a request of what sleeps: %s", stalloc_last_error());
	shared_free_asleep(w);
	if (step) CHECK(stalloc_step(-1) == STALLOC_OK || run.faults, "%s", stalloc_last_error());
	double start = kit_seconds();
	while (stalloc_resume(-1, NULL, 0) != STALLOC_OK) {
		CHECK(run.faults && kit_seconds() - start < 20, "it does not wake: %s",
		      stalloc_last_error());
		kit_sleep_ms(1);
	}
	keep = keep && result == STALLOC_OK; /* else some devices sleep, and nobody knows which */
	shared_resumed(keep);
	check_all(keep);
	w->did.pauses++;
}

uint64_t regions_live(int device, uint64_t *bytes, uint64_t *requested)
{
	uint64_t n = 0;
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < BLOCKS; i++) {
			const struct tracked *p = &regions[device][t].p[i];
			if (!p->at) continue;
			n++;
			*bytes += (p->size + 511) & ~UINT64_C(511);
			*requested += p->size;
		}
	return n;
}

void regions_clear(struct worker *w)
{
	for (int d = 0; d < run.devices; d++)
		for (int t = 0; t < run.threads; t++) {
			struct region *r = &regions[d][t];
			struct worker of = {.id = t + 1, .random = w->random};
			CHECK(!r->asleep || resume(&of, r, d), "a region cannot be woken: %s",
			      stalloc_last_error());
			CHECK(!r->lent || reopen(&of, r, d, NULL), "a region cannot be opened: %s",
			      stalloc_last_error());
			for (int i = 0; i < BLOCKS; i++) tracked_free(w, &r->p[i]);
		}
}
