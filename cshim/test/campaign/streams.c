/* Streams as the driver makes them, on each device. Blocks outlive them: they are freed by the name
 * of a stream that is gone, or that has its address by now. Nothing else is done with one that is
 * gone: whoever uses a road is on it, until what it uses of others' is free. */
#include <pthread.h>
#include <stdio.h>

#include "run.h"

enum { BUSY = -1, NO_STREAM = -2, LASTING = 4 };
static struct road {
	_Atomic int users; /* or one of these */
	void *stream;
} roads[DEVICES *
	STREAMS]; /* each device's first is its default stream, and some last as long as the life */

static bool lasts(const struct road *r) { return (r - roads) % STREAMS < LASTING; }

void *road_new(struct worker *w, int device)
{
	void *stream = kit_stream(device, 1);
	w->did.streams += stream != NULL;
	return stream;
}

void roads_open(struct worker *w)
{
	for (int d = 0; d < life.devices; d++) {
		for (int i = 1; i < STREAMS; i++) {
			struct road *r = &roads[d * STREAMS + i];
			CHECK((r->stream = road_new(w, d)), "no stream");
			if (lasts(r)) stalloc_lasting_stream(d, r->stream);
		}
	}
}

/* Where steps are to repeat, others keep off the roads of those who play them. */
static int any_road(struct worker *w, int device)
{
	int own = life.noisy ? 0 : DEVICES,
	    n = (int)kit_below(&w->random, (uint64_t)(STREAMS - own));
	return device * STREAMS + (n == 0 ? 0 : own + n);
}

int road_enter(struct worker *w, int device, int wanted)
{
	for (int n = wanted > 0 ? device * STREAMS + wanted : any_road(w, device);;
	     n = any_road(w, device)) {
		int users = atomic_load(&roads[n].users);
		if (users >= 0 &&
		    atomic_compare_exchange_strong(&roads[n].users, &users, users + 1))
			return n;
	}
}

void *road_stream(int road) { return roads[road].stream; }

void road_leave(int road) { atomic_fetch_sub(&roads[road].users, 1); }

/* A road whose stream cannot be made stays closed until one can. */
void road_renew(struct worker *w)
{
	int device = (int)kit_below(&w->random, (uint64_t)life.devices), users = 0;
	struct road *r = &roads[any_road(w, device)];
	if (lasts(r)) return;
	if (!atomic_compare_exchange_strong(&r->users, &users, BUSY) &&
	    (users != NO_STREAM || !atomic_compare_exchange_strong(&r->users, &users, BUSY)))
		return;
	if (users != NO_STREAM) kit_stream_end(r->stream);
	r->stream = road_new(w, device);
	atomic_store(&r->users, r->stream ? 0 : NO_STREAM);
}

void road_visit(struct worker *w)
{
	enum { PIECES = 12 };
	struct piece p[PIECES];
	int device = (int)kit_below(&w->random, (uint64_t)life.devices);
	void *stream = road_new(w, device);
	if (!stream) return;
	for (int i = 0; i < PIECES; i++)
		if (piece_get(w, &p[i], some_size(w), device, stream) && i % 3 == 2)
			piece_use(w, &p[i]);
	uint64_t left = kit_below(&w->random, 3); /* to whoever comes, when the stream is gone */
	for (uint64_t i = left; i < PIECES; i++) piece_give(w, &p[i]);
	kit_stream_end(stream);
	for (uint64_t i = 0; i < left; i++)
		if (p[i].at) cell_leave(w, &p[i]);
}

void roads_close(void)
{
	for (int i = 0; i < DEVICES * STREAMS; i++)
		if (roads[i].stream && !lasts(&roads[i])) kit_stream_end(roads[i].stream);
}
