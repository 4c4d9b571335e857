/* Events: positions of streams. */
#include "stream.h"

#include <stdlib.h>
#include <string.h>

#define NOT_READY STALLOC_CU_NOT_READY
#define CAPTURED_EVENT 907

static struct event {
	int alive, captured, not_yet;
	long stream; /* index, -1: never recorded */
	long at;
	unsigned reuse;
} *events;
static size_t event_count;

/* An event's handle is its index and how often the index was reused. */
static struct event *find_event(void *handle)
{
	uintptr_t value = (uintptr_t)handle, i = (value & 0xffffffff) - FIRST;
	if (i >= event_count || !events[i].alive ||
	    events[i].reuse != (unsigned)(value >> 32))
		return NULL;
	return &events[i];
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
	e->not_yet = (int)settings.event_delay;
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
	stream_wait(s, e->stream, e->at);
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
	if (settings.held || e->not_yet-- > 0)
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

long event_live(void)
{
	long live = 0;
	for (size_t i = 0; i < event_count; i++)
		live += events[i].alive;
	return live;
}

void event_reset(void)
{
	free(events);
	events = NULL;
	event_count = 0;
}
