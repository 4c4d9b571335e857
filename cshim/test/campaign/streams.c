/* Slots, each with a stream of the driver's, on each device. Blocks outlive streams: they are freed
 * by the name of a stream that is gone, or that has its address by now. Nothing else is done with
 * one that is gone: whoever uses a stream holds its slot until the blocks that it uses are free. */
#include <pthread.h>
#include <stdio.h>

#include "run.h"

enum { BUSY = -1, NO_STREAM = -2, PERSISTENT = 4 };

/* Each device's first has the default stream, and some keep theirs as long as the run lasts. */
static struct slot {
	_Atomic int users; /* or one of these */
	void *stream;
} slots[DEVICES * SLOTS];

static bool persistent(const struct slot *s) { return (s - slots) % SLOTS < PERSISTENT; }

void *stream_create(struct worker *w, int device)
{
	void *stream = kit_stream(device, 1);
	w->did.streams += stream != NULL;
	return stream;
}

void slots_open(struct worker *w)
{
	for (int d = 0; d < run.devices; d++) {
		for (int i = 1; i < SLOTS; i++) {
			struct slot *s = &slots[d * SLOTS + i];
			CHECK((s->stream = stream_create(w, d)), "no stream");
			if (persistent(s)) stalloc_lasting_stream(d, s->stream);
		}
	}
}

/* Where steps are to repeat, others keep off the slots of the threads that play them. */
static int any_slot(struct worker *w, int device)
{
	int own = run.noisy ? 0 : DEVICES,
	    n = (int)kit_below(&w->random, (uint64_t)(SLOTS - own));
	return device * SLOTS + (n == 0 ? 0 : own + n);
}

int slot_acquire(struct worker *w, int device, int wanted)
{
	for (int n = wanted > 0 ? device * SLOTS + wanted : any_slot(w, device);;
	     n = any_slot(w, device)) {
		int users = atomic_load(&slots[n].users);
		if (users >= 0 &&
		    atomic_compare_exchange_strong(&slots[n].users, &users, users + 1))
			return n;
	}
}

void *slot_stream(int slot) { return slots[slot].stream; }

void slot_release(int slot) { atomic_fetch_sub(&slots[slot].users, 1); }

/* A slot whose stream cannot be made stays empty until one can. */
void slot_recreate(struct worker *w)
{
	int device = (int)kit_below(&w->random, (uint64_t)run.devices), users = 0;
	struct slot *s = &slots[any_slot(w, device)];
	if (persistent(s)) return;
	if (!atomic_compare_exchange_strong(&s->users, &users, BUSY) &&
	    (users != NO_STREAM || !atomic_compare_exchange_strong(&s->users, &users, BUSY)))
		return;
	if (users != NO_STREAM) kit_stream_end(s->stream);
	s->stream = stream_create(w, device);
	atomic_store(&s->users, s->stream ? 0 : NO_STREAM);
}

void short_stream_play(struct worker *w)
{
	enum { BLOCKS = 12 };
	struct tracked p[BLOCKS];
	int device = (int)kit_below(&w->random, (uint64_t)run.devices);
	void *stream = stream_create(w, device);
	if (!stream) return;
	for (int i = 0; i < BLOCKS; i++)
		if (tracked_malloc(w, &p[i], random_size(w), device, stream) && i % 3 == 2)
			tracked_record_stream(w, &p[i]);
	uint64_t left = kit_below(&w->random, 3); /* in the shared table, when the stream is gone */
	for (uint64_t i = left; i < BLOCKS; i++) tracked_free(w, &p[i]);
	kit_stream_end(stream);
	for (uint64_t i = 0; i < left; i++)
		if (p[i].at) shared_put(w, &p[i]);
}

void slots_close(void)
{
	for (int i = 0; i < DEVICES * SLOTS; i++)
		if (slots[i].stream && !persistent(&slots[i])) kit_stream_end(slots[i].stream);
}
