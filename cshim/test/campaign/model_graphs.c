/* Graphs that live through the whole run. Memory that a capture had and freed stays the graph's: a
 * replay may write to it at any time, while other memory sleeps, fails or is given back. */
#include <stdio.h>

#include "model.h"

enum { REELS = 3, FRAMES = 6 };

/* A graph, with a private pool of its own. Its frames keep their claims until it is dropped. */
static struct reel {
	uint64_t pool; /* 0: there is none */
	int device;
	struct piece frames[FRAMES];
} reels[REELS];

static void take(struct reel *r)
{
	static uint64_t pools;
	int device = (int)below((uint64_t)life.devices);
	if (night.closed[device]) return;
	void *stream = road_new(night.w, device);
	CHECK(stream, "no stream");
	*r = (struct reel){.pool = ++pools, .device = device};
	stalloc_begin_pool(device, r->pool, 11, NULL);
	CHECK(fake(capture_begin)(stream) == 0, "no capture");
	for (int i = 0; i < FRAMES; i++) {
		struct piece *p = &r->frames[i];
		*p = (struct piece){.size = stay_size(), .device = device, .stream = stream};
		p->at = stalloc_malloc(p->size, device, stream);
		if (answer_of(p->at, device, 0) == IS_AWAKE) piece_claim(p, true);
	}
	CHECK(fake(capture_end)(stream) == 1, "a capture was invalidated");
	stalloc_end_pool(device, r->pool, 11);
	for (int i = 0; i < FRAMES; i++) stalloc_free(r->frames[i].at, 0, device, stream);
	kit_stream_end(stream);
	TELL("graph of pool %llu on device %d", (ull)r->pool, device);
	night.w->did.captures++;
}

/* On the default stream, so one replay ends before the next begins. */
static void replay(struct reel *r)
{
	TELL("replay of pool %llu", (ull)r->pool);
	for (int i = 0; i < FRAMES; i++)
		if (r->frames[i].at) {
			r->frames[i].tag = ++night.w->sequence * 64 + 1;
			work_write(&r->frames[i], 0);
			work_read(&r->frames[i], 0);
		}
	pass_some();
}

static void drop(struct reel *r)
{
	if (!r->pool) return;
	TELL("drop pool %llu", (ull)r->pool);
	kit_pass_all();
	for (int i = 0; i < FRAMES; i++)
		if (r->frames[i].at) piece_claim(&r->frames[i], false);
	stalloc_release_pool(r->device, r->pool, 11);
	r->pool = 0;
}

void reels_play(void)
{
	struct reel *r = &reels[below(REELS)];
	if (!r->pool)
		take(r);
	else if (chance(6))
		drop(r);
	else
		replay(r);
}

void reels_close(int device)
{
	for (int i = 0; i < REELS; i++)
		if (device < 0 || reels[i].device == device) drop(&reels[i]);
}
