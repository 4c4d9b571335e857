/* Streams, and how their work goes on. */
#include "stream.h"

#include <limits.h>
#include <stdlib.h>

struct stream *streams;
size_t stream_count;
static uintptr_t next_stream = FIRST;
static void *last_destroyed;

static struct stream *add_stream(void *key, int created)
{
	streams = checked(
		realloc(streams, (stream_count + 1) * sizeof streams[0]));
	streams[stream_count] =
		(struct stream){.key = key, .created = created, .alive = 1,
				.device = created ? current_device() : -1};
	return &streams[stream_count++];
}

static long dead_calls; /* that named a stream which was destroyed */

struct stream *find_stream(void *key)
{
	int dead = 0;
	for (size_t i = stream_count; i-- > 0;) { /* the newest of that address */
		if (streams[i].key != key)
			continue;
		if (streams[i].alive)
			return &streams[i];
		dead = 1;
	}
	dead_calls += dead;
	if (dead)
		return NULL;
	if ((uintptr_t)key <= 2 || settings.any_stream)
		return add_stream(key, 0);
	return NULL;
}

static struct wait {
	long stream, after, other, until;
} *waits;
static size_t wait_count;

void stream_wait(struct stream *s, long other, long until)
{
	waits = checked(realloc(waits, (wait_count + 1) * sizeof waits[0]));
	waits[wait_count++] = (struct wait){s - streams, s->last, other, until};
	s->last++; /* an event after it passes after it */
}

void pass(struct stream *s, long to)
{
	for (size_t i = 0; i < wait_count; i++) {
		struct wait w = waits[i];
		if (w.stream != s - streams || w.after >= to)
			continue;
		waits[i--] = waits[--wait_count];
		pass(&streams[w.other], w.until);
	}
	if (s->passed < to)
		s->passed = to;
	work_run(s - streams, s->passed);
}

void stream_sync(int device)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].device < 0 || streams[i].device == device)
			pass(&streams[i], streams[i].last);
}

long stream_queue(void *stream, long *at)
{
	struct stream *s = find_stream(stream);
	if (s == NULL)
		return -1;
	*at = ++s->last;
	return s - streams;
}

void stream_pass_all(void *stream)
{
	struct stream *s = find_stream(stream);
	if (s != NULL)
		pass(s, s->last);
}

/* One of those that have work left goes on. Returns whether any has. */
int stream_pass_some(unsigned long dice, long n)
{
	for (size_t k = 0; k < stream_count; k++) {
		struct stream *s = &streams[(dice + k) % stream_count];
		if (s->passed >= s->last)
			continue;
		pass(s, s->last - s->passed < n ? s->last : s->passed + n);
		return 1;
	}
	return 0;
}

int cuStreamCreate(void **stream, unsigned int flags)
{
	BEGIN(cuStreamCreate, NEED_CONTEXT);
	if (stream == NULL || flags > 1)
		return leave(STALLOC_CU_INVALID_VALUE);
	void *key = (void *)next_stream;
	if (settings.reuse_streams && last_destroyed != NULL)
		key = last_destroyed;
	else
		next_stream++;
	last_destroyed = NULL;
	struct stream *s = add_stream(key, 1);
	s->blocking = flags == 0;
	*stream = s->key;
	return leave(0);
}

int cuStreamDestroy_v2(void *stream)
{
	BEGIN(cuStreamDestroy, NEED_CONTEXT);
	struct stream *s = find_stream(stream);
	if (s == NULL || !s->created)
		return leave(STALLOC_CU_INVALID_HANDLE);
	s->alive = 0;
	if (!settings.held)
		s->passed = LONG_MAX; /* its work still ends */
	last_destroyed = stream;
	return leave(0);
}

void stream_reset(void)
{
	free(streams);
	free(waits);
	waits = NULL;
	streams = NULL;
	wait_count = stream_count = 0;
	next_stream = FIRST;
	dead_calls = 0;
	last_destroyed = NULL;
	event_reset();
	capture_reset();
}

long stream_live(void)
{
	long live = 0;
	for (size_t i = 0; i < stream_count; i++)
		live += streams[i].alive && streams[i].created;
	return live;
}

long stream_dead_calls(void)
{
	return dead_calls;
}
