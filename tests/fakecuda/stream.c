/* Streams, events and stream capture. A stream is two positions: the last one
 * given to an event and the one its work has passed. */
#include "fake.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define NOT_READY STALLOC_CU_NOT_READY
#define CAPTURED_EVENT 907
#define CAPTURE_IMPLICIT 906
enum { NOT_CAPTURING, CAPTURING, INVALIDATED };

static struct stream {
	void *key;
	int created, alive, capture, device; /* -1: of any */
	int blocking; /* it and the default stream wait for each other */
	int captures; /* begun so far */
	long last, passed;
} *streams;
static size_t stream_count;

static struct event {
	int alive, captured, noes;
	long stream; /* index, -1: never recorded */
	long at;
	unsigned reuse;
} *events;
static size_t event_count;

/* Handles are numbers in pointers' clothes; they start above the driver's own
 * special streams 0, 1 and 2. */
#define FIRST 4096
static uintptr_t next_stream = FIRST;
static void *last_destroyed;

static _Thread_local int thread_mode = STALLOC_CU_CAPTURE_MODE_GLOBAL;

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

static struct stream *find_stream(void *key)
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

/* An event's handle is its index and how often the index was reused. */
static struct event *find_event(void *handle)
{
	uintptr_t value = (uintptr_t)handle, i = (value & 0xffffffff) - FIRST;
	if (i >= event_count || !events[i].alive ||
	    events[i].reuse != (unsigned)(value >> 32))
		return NULL;
	return &events[i];
}

static void invalidate(void)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].capture == CAPTURING)
			streams[i].capture = INVALIDATED;
}

int capture_blocks(void)
{
	if (thread_mode == STALLOC_CU_CAPTURE_MODE_RELAXED)
		return 0;
	int capturing = 0;
	for (size_t i = 0; i < stream_count; i++)
		capturing |= streams[i].capture == CAPTURING;
	if (capturing)
		invalidate();
	return capturing;
}

/* Work of a stream behind a position begins when another has passed one. */
static struct wait {
	long stream, after, other, until;
} *waits;
static size_t wait_count;

/* What a stream waits for passes first. */
static void pass(struct stream *s, long to)
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

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	BEGIN(cuThreadExchangeStreamCaptureMode, NEED_INIT);
	if (mode == NULL || *mode < 0 || *mode > 2)
		return leave(STALLOC_CU_INVALID_VALUE);
	int old = thread_mode;
	thread_mode = *mode;
	*mode = old;
	return leave(0);
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

/* Whether the default stream is named while a stream that waits for it is captured. To ask does
 * that no harm, to give it work does. */
static int implicit(const struct stream *s)
{
	int capturing = 0;
	for (size_t i = 0; i < stream_count && (uintptr_t)s->key <= 1; i++)
		capturing |= streams[i].blocking && streams[i].capture == CAPTURING;
	return capturing;
}

/* Whatever the thread's mode: a context is a broader handle of what is captured. */
int cuCtxSynchronize(void)
{
	BEGIN(cuCtxSynchronize, NEED_CONTEXT);
	int device = current_device();
	for (size_t i = 0; i < stream_count; i++) {
		if (streams[i].capture == NOT_CAPTURING ||
		    (streams[i].device >= 0 && streams[i].device != device))
			continue;
		invalidate();
		return leave(STALLOC_CU_CAPTURE_UNSUPPORTED);
	}
	stream_sync(device);
	return leave(0);
}

int cuStreamIsCapturing(void *stream, int *status)
{
	BEGIN(cuStreamIsCapturing, NEED_CONTEXT);
	struct stream *s = find_stream(stream);
	if (status == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (s == NULL)
		return leave(STALLOC_CU_INVALID_HANDLE);
	*status = s->capture;
	return leave(implicit(s) ? CAPTURE_IMPLICIT : 0);
}

int cuEventCreate(void **event, unsigned int flags)
{
	BEGIN(cuEventCreate, NEED_CONTEXT);
	if (event == NULL || flags > 7)
		return leave(STALLOC_CU_INVALID_VALUE);
	size_t i = 0;
	while (i < event_count && events[i].alive)
		i++;
	if (i == event_count) {
		events = checked(realloc(events, (i + 1) * sizeof events[0]));
		memset(&events[i], 0, sizeof events[i]);
		event_count++;
	}
	unsigned reuse = events[i].reuse;
	events[i] = (struct event){.alive = 1, .stream = -1, .reuse = reuse};
	*event = (void *)((uintptr_t)reuse << 32 | (i + FIRST));
	return leave(0);
}

int cuEventDestroy_v2(void *event)
{
	BEGIN(cuEventDestroy, NEED_CONTEXT);
	struct event *e = find_event(event);
	if (e == NULL)
		return leave(STALLOC_CU_INVALID_HANDLE);
	e->alive = 0;
	e->reuse++;
	return leave(0);
}

int cuEventRecord(void *event, void *stream)
{
	BEGIN(cuEventRecord, NEED_CONTEXT);
	struct event *e = find_event(event);
	struct stream *s = find_stream(stream);
	if (e == NULL || s == NULL)
		return leave(STALLOC_CU_INVALID_HANDLE);
	if (implicit(s)) {
		invalidate();
		return leave(CAPTURE_IMPLICIT);
	}
	e->captured = s->capture != NOT_CAPTURING ? s->captures : 0;
	e->stream = s - streams;
	s->last += !settings.held; /* else kernels alone are work */
	e->at = s->last;
	e->noes = (int)settings.event_delay;
	return leave(0);
}

int cuStreamWaitEvent(void *stream, void *event, unsigned int flags)
{
	BEGIN(cuStreamWaitEvent, NEED_CONTEXT);
	struct stream *s = find_stream(stream);
	struct event *e = find_event(event);
	if (s == NULL || e == NULL)
		return leave(STALLOC_CU_INVALID_HANDLE);
	if (flags != 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (implicit(s)) {
		invalidate();
		return leave(CAPTURE_IMPLICIT);
	}
	if (!settings.held || e->stream < 0 || streams[e->stream].passed >= e->at)
		return leave(0);
	waits = checked(realloc(waits, (wait_count + 1) * sizeof waits[0]));
	waits[wait_count++] = (struct wait){s - streams, s->last, e->stream, e->at};
	return leave(0);
}

/* Has the work before the event passed? 600 if not. */
static int passed(struct event *e)
{
	if (e->captured) {
		const struct stream *s = &streams[e->stream];
		if (s->capture != NOT_CAPTURING && s->captures == e->captured)
			invalidate();
		return CAPTURED_EVENT;
	}
	if (e->stream < 0 || streams[e->stream].passed >= e->at)
		return 0;
	if (settings.held || e->noes-- > 0)
		return NOT_READY;
	streams[e->stream].passed = e->at;
	return 0;
}

int cuEventQuery(void *event)
{
	BEGIN(cuEventQuery, NEED_SAFE);
	struct event *e = find_event(event);
	return leave(e == NULL ? STALLOC_CU_INVALID_HANDLE : passed(e));
}

/* Under the lock. Returns the state that was, or -1. */
int stream_capture(void *stream, int begin)
{
	struct stream *s = find_stream(stream);
	if (s == NULL || (begin && s->capture != NOT_CAPTURING))
		return -1;
	int was = s->capture;
	s->capture = begin ? CAPTURING : NOT_CAPTURING;
	s->captures += begin;
	return was;
}

void stream_reset(void)
{
	free(streams);
	free(events);
	free(waits);
	waits = NULL;
	wait_count = 0;
	streams = NULL;
	events = NULL;
	stream_count = event_count = 0;
	next_stream = FIRST;
	dead_calls = 0;
	last_destroyed = NULL;
	thread_mode = STALLOC_CU_CAPTURE_MODE_GLOBAL;
}

long event_live(void)
{
	long live = 0;
	for (size_t i = 0; i < event_count; i++)
		live += events[i].alive;
	return live;
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
