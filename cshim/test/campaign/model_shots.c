/* A private pool that takes requests of any stream, while one of them is captured into a graph: the
 * requests of the others are served with no call that ends the capture. */
#include "model.h"

enum { SHOTS = 14 };

/* Of the captured stream or of a lane. */
static void shoot(struct piece *p, int device, void *captured)
{
	void *stream = chance(3) ? captured : night.lanes[device][below(LANES)];
	*p = (struct piece){.size = stay_size(), .device = device, .stream = stream};
	p->at = stalloc_malloc(p->size, device, stream);
	if (answer_of(p->at, device, 0) == IS_AWAKE) piece_claim(p, true);
}

static void drop(struct piece *p)
{
	if (!p->at) return;
	piece_claim(p, false);
	stalloc_free(p->at, 0, p->device, p->stream);
	p->at = NULL;
}

void shots_play(void)
{
	static uint64_t pools;
	struct piece p[SHOTS] = {{0}};
	int device = (int)below((uint64_t)life.devices);
	void *stream = road_new(night.w, device);
	CHECK(stream, "no stream");
	stalloc_begin_pool(device, ++pools, 9, NULL);
	CHECK(fake(capture_begin)(stream) == 0, "no capture");
	TELL("capture on device %d", device);
	for (int i = 0; i < 2 * SHOTS; i++) {
		struct piece *one = &p[below(SHOTS)];
		one->at ? drop(one) : shoot(one, device, stream);
		if (chance(4)) pass_some();
	}
	CHECK(fake(capture_end)(stream) == 1, "a capture was invalidated");
	stalloc_end_pool(device, pools, 9);
	for (int i = 0; i < SHOTS; i++) drop(&p[i]);
	stalloc_release_pool(device, pools, 9);
	kit_stream_end(stream);
	night.w->did.captures++;
}
