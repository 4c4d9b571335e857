/* Regions that sleep or lend their memory, and blocks that are exported. Each worker has its own
 * region on each device, so no other touches what sleeps. Its blocks live on between naps. */
#include <stdio.h>
#include <string.h>

#include "run.h"

enum { PIECES = 12, TRIES = 20 };

static struct region {
	struct piece p[PIECES];
	bool asleep, kept; /* with its contents */
	bool lent, intact; /* nobody touches it; it has not slept without a backup */
} regions[DEVICES][THREADS];

static const char *tag_of(const struct worker *w, char *text, size_t n)
{
	snprintf(text, n, "worker %d", w->id);
	return text;
}

/* Allocates and frees some of the pieces. */
static void churn(struct worker *w, struct region *r, int device, void *stream)
{
	for (int i = 0; i < 2 * PIECES; i++) {
		struct piece *p = &r->p[kit_below(&w->random, PIECES)];
		if (!p->at)
			piece_get(w, p, some_size(w), device, stream);
		else if (kit_below(&w->random, 8) == 0)
			piece_use(w, p);
		else
			piece_give(w, p);
	}
}

/* What this process exports it can import, too: the same bytes at another address. */
static void export(struct worker *w, const struct piece *p)
{
	char token[4096];
	size_t offset = 0;
	if (!p->at) return;
	long n = stalloc_export_block(p->at, &offset, token, sizeof token);
	if (n < 0 || (size_t)n >= sizeof token) {
		CHECK(n >= 0 || *stalloc_last_error(), "no token, and nothing said");
		return;
	}
	struct piece there = *p;
	char *at = stalloc_import_block(token, p->device);
	if (!at) {
		CHECK(life.mishaps || strstr(stalloc_last_error(), "cannot be mapped here"), "%s",
		      stalloc_last_error()); /* no file descriptors are left */
		return;
	}
	there.at = at + offset;
	piece_check(&there);
	CHECK(stalloc_end_import(at) == STALLOC_OK || life.mishaps, "%s", stalloc_last_error());
	w->did.exports++;
}

static bool pause_now(struct worker *w, struct region *r, int device)
{
	char text[32];
	const char *tag = tag_of(w, text, sizeof text);
	r->kept = kit_below(&w->random, 2);
	int result = stalloc_pause(device, &tag, 1,
				   r->kept ? STALLOC_BACKUP_HOST : STALLOC_BACKUP_DISCARD);
	const char *why = result == STALLOC_OK ? "" : stalloc_last_error();
	CHECK(result == STALLOC_OK || life.mishaps || !life.sound ||
		      strstr(why, "being captured") || strstr(why, "pool:gmlake"),
	      "%s", why);
	r->asleep = result == STALLOC_OK || strstr(why, "it sleeps");
	w->did.naps += r->asleep;
	return r->asleep;
}

/* It is refused, or its device is served by plain driver allocations by now. */
static void request(struct worker *w, int device, void *stream)
{
	struct piece p;
	if (kit_below(&w->random, 2)) {
		if (life.sound && !life.open_pools) /* which come before regions */
			CHECK(!stalloc_malloc(1000, device, stream) &&
				      strstr(stalloc_last_error(), "sleeps"),
			      "a request of what sleeps: %s", stalloc_last_error());
	} else {
		stalloc_end_region();
		piece_get(w, &p, some_size(w), device, stream); /* of what does not */
		piece_give(w, &p);
		char text[32];
		CHECK(stalloc_begin_region(tag_of(w, text, sizeof text)) == STALLOC_OK ||
			      life.mishaps,
		      "%s", stalloc_last_error());
	}
}

/* Wakes it. False: it stays asleep, as it may if memory is short. */
static bool resume(struct worker *w, struct region *r, int device)
{
	char text[32];
	const char *tag = tag_of(w, text, sizeof text);
	for (int i = 0; stalloc_resume(device, &tag, 1) != STALLOC_OK; i++) {
		const char *why = stalloc_last_error();
		CHECK(!life.roomy || !life.sound || strstr(why, "being captured"), "%s", why);
		if (i == TRIES) return false;
		stalloc_empty_cache();
		kit_progress();
	}
	r->asleep = false;
	for (int i = 0; i < PIECES; i++) piece_wake(&r->p[i], r->kept);
	return true;
}

/* While it sleeps, its blocks can be freed, and other requests are served. */
static void dream(struct worker *w, struct region *r, int device, void *stream)
{
	for (int i = 0; i < PIECES; i++)
		if (r->p[i].at && kit_below(&w->random, 4) == 0) piece_dream(w, &r->p[i]);
	request(w, device, stream);
}

static bool lend(struct worker *w, struct region *r, int device, void *stream)
{
	char text[32];
	int how = (int)kit_below(&w->random, 4) * STALLOC_ALL_LEAVES; /* or more follow, or both */
	int result = stalloc_end_awake(device, tag_of(w, text, sizeof text), stream,
				       STALLOC_CHANGED | how);
	CHECK(result == STALLOC_OK || life.mishaps || !life.sound ||
		      strstr(stalloc_last_error(), "known are"),
	      "%s", stalloc_last_error());
	w->did.loans += result == STALLOC_OK;
	return r->lent = r->intact = result == STALLOC_OK;
}

/* Uses it again. False: it stays lent, as it may if memory is short. */
static bool open_again(struct worker *w, struct region *r, int device, void *stream)
{
	char text[32];
	const char *tag = tag_of(w, text, sizeof text);
	for (int i = 0; stalloc_begin_awake(device, tag, stream) != STALLOC_OK; i++) {
		const char *why = stalloc_last_error();
		if (strstr(why, "known are")) break; /* it has no blocks */
		CHECK(!life.roomy || !life.sound || strstr(why, "being captured"), "%s", why);
		if (i == TRIES) return false;
		stalloc_empty_cache();
		kit_progress();
	}
	r->lent = false;
	for (int i = 0; i < PIECES; i++) piece_wake(&r->p[i], r->intact);
	return true;
}

void nap(struct worker *w)
{
	char text[32];
	int device = (int)kit_below(&w->random, (uint64_t)life.devices);
	struct region *r = &regions[device][w->id - 1];
	if (r->asleep && !resume(w, r, device)) return;
	int road = road_enter(w, device, 0);
	bool open = !r->lent || open_again(w, r, device, road_stream(road));
	if (!open || stalloc_begin_region(tag_of(w, text, sizeof text)) != STALLOC_OK) {
		CHECK(!open || life.mishaps, "%s", stalloc_last_error());
		road_leave(road);
		return;
	}
	churn(w, r, device, road_stream(road));
	if (kit_below(&w->random, 3) == 0) export(w, &r->p[kit_below(&w->random, PIECES)]);
	if (kit_below(&w->random, 2))
		lend(w, r, device, road_stream(road));
	else if (pause_now(w, r, device))
		dream(w, r, device, road_stream(road));
	CHECK(stalloc_end_region() == STALLOC_OK || life.mishaps, "%s", stalloc_last_error());
	road_leave(road);
	if (r->lent && kit_below(&w->random, 2))
		stalloc_prefetch(device, tag_of(w, text, sizeof text));
	if (!r->asleep) return;
	if (kit_below(&w->random, 2)) steps_play(w);
	resume(w, r, device);
}

/* All regions are awake. */
static void look(bool kept)
{
	for (int d = 0; d < life.devices; d++)
		for (int t = 0; t < life.threads; t++) {
			struct region *r = &regions[d][t];
			r->intact = r->intact && kept; /* a capture may have kept it open */
			for (int i = 0; i < PIECES && !r->lent; i++)
				piece_wake(&r->p[i], r->asleep ? r->kept : kept);
			r->asleep = false;
		}
}

/* All threads stop: all memory sleeps, and after it wakes the blocks of all threads are checked. If
 * other blocks have taken the memory of what slept before, not all could wake. */
void all_nap(struct worker *w)
{
	if (stalloc_resume(-1, NULL, 0) != STALLOC_OK) return;
	look(true);
	bool keep = kit_below(&w->random, 2), step = kit_below(&w->random, 2);
	int result =
		stalloc_pause(-1, NULL, 0, keep ? STALLOC_BACKUP_HOST : STALLOC_BACKUP_DISCARD);
	CHECK(result == STALLOC_OK || !life.sound || strstr(stalloc_last_error(), "pool:gmlake"),
	      "%s", stalloc_last_error());
	if (result == STALLOC_OK && life.sound)
		CHECK(!stalloc_malloc(1000, 0, NULL) && strstr(stalloc_last_error(), "sleeps"),
		      "a request of what sleeps: %s", stalloc_last_error());
	cells_dream(w);
	if (step) CHECK(stalloc_step(-1) == STALLOC_OK || life.mishaps, "%s", stalloc_last_error());
	double start = kit_seconds();
	while (stalloc_resume(-1, NULL, 0) != STALLOC_OK) {
		CHECK(life.mishaps && kit_seconds() - start < 20, "it does not wake: %s",
		      stalloc_last_error());
		kit_sleep_ms(1);
	}
	keep = keep && result == STALLOC_OK; /* else some devices sleep, and nobody knows which */
	cells_wake(keep);
	look(keep);
	w->did.naps++;
}

uint64_t naps_live(int device, uint64_t *bytes, uint64_t *asked)
{
	uint64_t n = 0;
	for (int t = 0; t < THREADS; t++)
		for (int i = 0; i < PIECES; i++) {
			const struct piece *p = &regions[device][t].p[i];
			if (!p->at) continue;
			n++;
			*bytes += (p->size + 511) & ~UINT64_C(511);
			*asked += p->size;
		}
	return n;
}

void naps_clear(struct worker *w)
{
	for (int d = 0; d < life.devices; d++)
		for (int t = 0; t < life.threads; t++) {
			struct region *r = &regions[d][t];
			struct worker of = {.id = t + 1, .random = w->random};
			if (r->asleep)
				CHECK(resume(&of, r, d), "a region cannot be woken: %s",
				      stalloc_last_error());
			if (r->lent)
				CHECK(open_again(&of, r, d, NULL), "a region cannot be opened: %s",
				      stalloc_last_error());
			for (int i = 0; i < PIECES; i++) piece_give(w, &r->p[i]);
		}
}
