/* Private pools and captures into graphs. What is freed in a pool that graphs use nobody else may
 * have before the pool is released, and what a captured stream uses nobody before the capture is
 * over: such blocks keep their claims for as long. */
#include <stdio.h>

#include "run.h"

enum { BLOCKS = 24, KEPT = 6, REUSED = 4 };

/* Pools that keep their memory until the run ends. */
static _Atomic uint64_t kept[DEVICES][KEPT], pools = REUSED;

/* An id is the worker's own, and at times one that was released before. Beside a program's pool the
 * device is waited for until a request is captured, which ends a capture. */
static uint64_t begin(struct worker *w, int device, void *stream, bool all, bool graph)
{
	struct kit_filter one = kit_only(stream);
	uint64_t id = kit_below(&w->random, 4) ? atomic_fetch_add(&pools, 1)
					       : kit_below(&w->random, REUSED);
	id = id << 8 | (uint64_t)w->id;
	stalloc_begin_pool(device, id, 7, all ? NULL : &one);
	if (kit_below(&w->random, 2)) stalloc_pool_purpose(device, id, 7, stream, graph);
	w->did.pools++;
	return id;
}

/* Requests and frees as a layer does. */
static void churn(struct worker *w, struct tracked *p, int device, void *stream)
{
	for (int i = 0; i < 2 * BLOCKS; i++) {
		struct tracked *one = &p[kit_below(&w->random, BLOCKS)];
		if (one->at)
			tracked_free(w, one);
		else
			tracked_malloc(w, one, random_size(w) / 2 + 1, device, stream);
	}
}

/* A block that was freed lies where it was, as a checkpoint wants it. */
static void restore(struct worker *w, struct tracked *p, uint64_t id)
{
	const uint64_t pool[] = {id, 7};
	tracked_check(p);
	if (!stalloc_serves_pools(p->device)) return tracked_unclaim(p);
	int result = stalloc_malloc_at(p->at, p->size, p->device, p->stream, pool);
	OK(result);
	w->served[p->device]++;
	tracked_resumed(p, false);
	tracked_free(w, p);
}

void graph_pool(struct worker *w)
{
	struct tracked p[BLOCKS] = {{0}};
	int device = (int)kit_below(&w->random, (uint64_t)run.devices);
	void *stream = stream_create(w, device);
	if (!stream) return;
	bool all = run.open_pools && kit_below(&w->random, 2), early = kit_below(&w->random, 2);
	uint64_t id = begin(w, device, stream, all, false);
	bool keep = kit_below(&w->random, 8) == 0 && id >> 8 >= REUSED;
	bool mine = run.no_fallback && !run.open_pools && !keep && !early;
	if (mine) stalloc_capture_pool(device, id, 7);
	churn(w, p, device, stream);
	stalloc_end_pool(device, id, 7);
	if (keep) { /* the one that was kept goes */
		_Atomic uint64_t *place = &kept[device][kit_below(&w->random, KEPT)];
		uint64_t other = atomic_exchange(place, id);
		if (other) stalloc_release_pool(device, other, 7);
	} else if (early) {
		stalloc_release_pool(device, id, 7);
	}
	for (int i = 0; i < BLOCKS; i++)
		if (p[i].at) mine ? tracked_free_claimed(w, &p[i]) : tracked_free(w, &p[i]);
	if (mine) {
		stalloc_empty_pool(device, id, 7); /* which leaves what graphs use */
		for (int i = 0; i < BLOCKS; i++) /* a replay */
			if (p[i].at) tracked_resumed(&p[i], false);
		steps_play(w); /* which is outside of the pool */
		for (int i = 0; i < BLOCKS; i++)
			if (p[i].at) restore(w, &p[i], id);
	}
	if (!early && !keep) stalloc_release_pool(device, id, 7);
	kit_stream_end(stream);
}

void graph_capture(struct worker *w)
{
	struct tracked p[BLOCKS] = {{0}}, used[BLOCKS] = {{0}};
	int device = (int)kit_below(&w->random, (uint64_t)run.devices),
	    slot = slot_acquire(w, device, 0);
	void *stream = stream_create(w, device);
	for (int i = 0; stream && i < BLOCKS; i++)
		if (tracked_malloc(w, &used[i], random_size(w), device, slot_stream(slot)))
			stalloc_record_stream(used[i].at, stream);
	slot_release(slot);
	if (!stream) return;
	uint64_t id = begin(w, device, stream, false, !run.faults);
	CHECK(fake(capture_begin)(stream) == 0, "no capture");
	churn(w, p, device, stream);
	for (int i = 0; i < BLOCKS; i++)
		if (used[i].at)
			run.no_fallback ? tracked_free_claimed(w, &used[i])
					: tracked_free(w, &used[i]);
	if (kit_below(&w->random, 2)) steps_play(w);
	churn(w, p, device, stream);
	for (int i = 0; i < BLOCKS; i++)
		if (used[i].at) tracked_unclaim(&used[i]);
	int state = fake(capture_end)(stream);
	CHECK(state == 1 || run.faults, "a capture was invalidated");
	stalloc_end_pool(device, id, 7);
	churn(w, p, device, stream);
	for (int i = 0; i < BLOCKS; i++) tracked_free(w, &p[i]);
	stalloc_release_pool(device, id, 7);
	kit_stream_end(stream);
	w->did.captures++;
}

void graphs_close(void)
{
	for (int d = 0; d < DEVICES; d++)
		for (int i = 0; i < KEPT; i++)
			if (kept[d][i]) stalloc_release_pool(d, kept[d][i], 7);
}
