/* Captures. A graph lives on, and memory that its capture had and freed stays its own: a replay
 * may write to it at any time, while other memory sleeps, fails or is given back. Or a pool takes
 * requests of any stream while one of them is captured: those of the others are served with no call
 * that ends the capture. */
#include <stdio.h>

#include "model.h"

enum { GRAPHS = 3, OF_GRAPH = 6, OF_CAPTURE = 14 };
enum { OF_MANY = 9, OF_ONE = 11 }; /* streams: the second half of a pool's id */

/* A graph, with a private pool of its own. Its blocks keep their claims until it is dropped. */
static struct graph {
	uint64_t pool; /* 0: there is none */
	int device;
	struct tracked blocks[OF_GRAPH];
} graphs[GRAPHS];

static void request(struct tracked *p, int device, void *stream)
{
	*p = (struct tracked){.size = request_size(), .device = device, .stream = stream};
	p->at = stalloc_malloc(p->size, device, stream);
	if (answer_of(p->at, device, 0) == IS_AWAKE) tracked_claim(p, true);
}

/* A new stream, of which all is captured from now on. */
static void *begin(int device, uint64_t pool, uint64_t id)
{
	void *stream = stream_create(model.w, device);
	CHECK(stream, "no stream");
	stalloc_begin_pool(device, pool, id, NULL);
	CHECK(fake(capture_begin)(stream) == 0, "no capture");
	return stream;
}

static void end(int device, uint64_t pool, uint64_t id, void *stream)
{
	CHECK(fake(capture_end)(stream) == 1, "a capture was invalidated");
	stalloc_end_pool(device, pool, id);
	model.w->did.captures++;
}

/* On the default stream, so one replay ends before the next begins. */
static void replay(struct graph *g)
{
	LOG("replay of pool %llu", (ull)g->pool);
	for (int i = 0; i < OF_GRAPH; i++)
		if (g->blocks[i].at) {
			g->blocks[i].tag = ++model.w->sequence * 64 + 1;
			work_write(&g->blocks[i], 0);
			work_read(&g->blocks[i], 0);
		}
	pass_some();
}

static void capture(struct graph *g)
{
	static uint64_t pools;
	int device = (int)below((uint64_t)run.devices);
	if (model.closed[device]) return;
	*g = (struct graph){.pool = ++pools, .device = device};
	void *stream = begin(device, g->pool, OF_ONE);
	for (int i = 0; i < OF_GRAPH; i++) request(&g->blocks[i], device, stream);
	end(device, g->pool, OF_ONE, stream);
	for (int i = 0; i < OF_GRAPH; i++) stalloc_free(g->blocks[i].at, 0, device, stream);
	kit_stream_end(stream);
	LOG("graph of pool %llu on device %d", (ull)g->pool, device);
}

static void drop(struct graph *g)
{
	if (!g->pool) return;
	LOG("drop pool %llu", (ull)g->pool);
	kit_pass_all();
	for (int i = 0; i < OF_GRAPH; i++)
		if (g->blocks[i].at) tracked_claim(&g->blocks[i], false);
	stalloc_release_pool(g->device, g->pool, OF_ONE);
	g->pool = 0;
}

void graph_play(void)
{
	struct graph *g = &graphs[below(GRAPHS)];
	if (!g->pool)
		capture(g);
	else if (chance(6))
		drop(g);
	else
		replay(g);
}

void graphs_drop(int device)
{
	for (int i = 0; i < GRAPHS; i++)
		if (device < 0 || graphs[i].device == device) drop(&graphs[i]);
}

static void release(struct tracked *p)
{
	if (!p->at) return;
	tracked_claim(p, false);
	stalloc_free(p->at, 0, p->device, p->stream);
	p->at = NULL;
}

/* Requests of the captured stream and of others. */
void capture_play(void)
{
	static uint64_t pools;
	struct tracked p[OF_CAPTURE] = {{0}};
	int device = (int)below((uint64_t)run.devices);
	void *captured = begin(device, ++pools, OF_MANY);
	LOG("capture on device %d", device);
	for (int i = 0; i < 2 * OF_CAPTURE; i++) {
		struct tracked *one = &p[below(OF_CAPTURE)];
		if (one->at)
			release(one);
		else
			request(one, device,
				chance(3) ? captured : model.streams[device][below(STREAMS)]);
		if (chance(4)) pass_some();
	}
	end(device, pools, OF_MANY, captured);
	for (int i = 0; i < OF_CAPTURE; i++) release(&p[i]);
	stalloc_release_pool(device, pools, OF_MANY);
	kit_stream_end(captured);
}
