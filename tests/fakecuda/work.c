/* Kernels and copies that wait for their turn in a stream. They run under the driver's lock, on
 * whatever thread lets the stream pass. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct work *queue; /* as launched, so the work of a stream is in order */
static size_t count, room;

static void run(const struct work *w)
{
	char what[64];
	const void *device = w->kernel == NULL && w->tag == COPY_BACK ? w->to : w->at;
	if (!usable(w->device, (uintptr_t)device, w->size)) {
		snprintf(what, sizeof what, "%p, %zu bytes, tag %#lx", device, w->size, w->tag);
		fatal("work uses memory that the device has not", what);
	}
	if (w->kernel != NULL)
		w->kernel(w->at, w->size, w->tag);
	else
		memcpy(w->to, w->at, w->size);
}

int work_launch(void *stream, struct work w)
{
	w.stream = stream_queue(stream, &w.position);
	if (w.stream < 0)
		return -1;
	if (!settings.held) {
		run(&w);
		return 0;
	}
	if (count == room) {
		room = room == 0 ? 256 : 2 * room;
		queue = checked(realloc(queue, room * sizeof queue[0]));
	}
	queue[count++] = w;
	return 0;
}

/* Runs what of a stream has passed. */
void work_run(long stream, long passed)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (queue[i].stream == stream && queue[i].position <= passed)
			run(&queue[i]);
		else
			queue[kept++] = queue[i];
	}
	count = kept;
}

void work_reset(void)
{
	free(queue);
	queue = NULL;
	count = room = 0;
}
