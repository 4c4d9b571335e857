/* Private pools and captures into graphs. What is freed in a pool that graphs use nobody else may
 * have before the pool is released, and what a captured stream uses nobody before the capture is
 * over: such pieces keep their claims for as long. */
#include <stdio.h>

#include "run.h"

enum { PIECES = 24, KEPT = 6, REUSED = 4 };

/* Pools that keep their memory until the life ends. */
static _Atomic uint64_t kept[DEVICES][KEPT], pools = REUSED;

/* An id is the worker's own, and at times one that was released before. */
static uint64_t begin(struct worker *w, int device, void *stream, bool all)
{
	struct kit_filter one = kit_only(stream);
	uint64_t id = kit_below(&w->random, 4) ? atomic_fetch_add(&pools, 1)
					       : kit_below(&w->random, REUSED);
	id = id << 8 | (uint64_t)w->id;
	stalloc_begin_pool(device, id, 7, all ? NULL : &one);
	if (kit_below(&w->random, 2)) stalloc_pool_purpose(device, id, 7, stream, 0);
	w->did.pools++;
	return id;
}

/* Fills and thins the pieces as a layer does. */
static void churn(struct worker *w, struct piece *p, int device, void *stream)
{
	for (int i = 0; i < 2 * PIECES; i++) {
		struct piece *one = &p[kit_below(&w->random, PIECES)];
		if (one->at)
			piece_give(w, one);
		else
			piece_get(w, one, some_size(w) / 2 + 1, device, stream);
	}
}

/* A piece that was freed lies where it was, as a checkpoint wants it. */
static void restore(struct worker *w, struct piece *p, uint64_t id)
{
	const uint64_t pool[] = {id, 7};
	piece_check(p);
	if (!stalloc_serves_pools(p->device)) return piece_over(p);
	int result = stalloc_malloc_at(p->at, p->size, p->device, p->stream, pool);
	OK(result);
	w->served[p->device]++;
	piece_wake(p, false);
	piece_give(w, p);
}

void graph_pool(struct worker *w)
{
	struct piece p[PIECES] = {{0}};
	int device = (int)kit_below(&w->random, (uint64_t)life.devices);
	void *stream = road_new(w, device);
	if (!stream) return;
	bool all = life.open_pools && kit_below(&w->random, 2), early = kit_below(&w->random, 2);
	uint64_t id = begin(w, device, stream, all);
	bool keep = kit_below(&w->random, 8) == 0 && id >> 8 >= REUSED;
	bool mine = life.sound && !life.open_pools && !keep && !early;
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
	for (int i = 0; i < PIECES; i++)
		if (p[i].at) mine ? piece_give_kept(w, &p[i]) : piece_give(w, &p[i]);
	if (mine) {
		stalloc_empty_pool(device, id, 7); /* which leaves what graphs use */
		for (int i = 0; i < PIECES; i++) /* a replay */
			if (p[i].at) piece_wake(&p[i], false);
		steps_play(w); /* which is outside of the pool */
		for (int i = 0; i < PIECES; i++)
			if (p[i].at) restore(w, &p[i], id);
	}
	if (!early && !keep) stalloc_release_pool(device, id, 7);
	kit_stream_end(stream);
}

void graph_capture(struct worker *w)
{
	struct piece p[PIECES] = {{0}}, used[PIECES] = {{0}};
	int device = (int)kit_below(&w->random, (uint64_t)life.devices),
	    road = road_enter(w, device, 0);
	void *stream = road_new(w, device);
	for (int i = 0; stream && i < PIECES; i++)
		if (piece_get(w, &used[i], some_size(w), device, road_stream(road)))
			stalloc_record_stream(used[i].at, stream);
	road_leave(road);
	if (!stream) return;
	uint64_t id = begin(w, device, stream, false);
	CHECK(fake(capture_begin)(stream) == 0, "no capture");
	churn(w, p, device, stream);
	for (int i = 0; i < PIECES; i++)
		if (used[i].at) life.sound ? piece_give_kept(w, &used[i]) : piece_give(w, &used[i]);
	if (kit_below(&w->random, 2)) steps_play(w);
	churn(w, p, device, stream);
	for (int i = 0; i < PIECES; i++)
		if (used[i].at) piece_over(&used[i]);
	int state = fake(capture_end)(stream);
	CHECK(state == 1 || life.mishaps, "a capture was invalidated");
	stalloc_end_pool(device, id, 7);
	churn(w, p, device, stream);
	for (int i = 0; i < PIECES; i++) piece_give(w, &p[i]);
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
