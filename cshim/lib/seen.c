/* The streams that were ever seen, and the one that each thread used last. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

_Atomic int stalloc_devices_seen;

static struct stalloc_device no_device;
static struct stalloc_stream no_stream = {.device = &no_device};
__thread struct stalloc_recent stalloc_recent = {
	.device = -1, .id = &no_stream, .stream = &no_stream, .of = &no_device};

void stalloc_invalidate_recent(void) { stalloc_recent.id = &no_stream; }

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

struct stalloc_stream *stalloc_stream_of(int device, void *stream) {
	if (!stalloc_is_device(device)) return NULL;
	uint64_t id = (uint64_t)(uintptr_t)stream;
	struct stalloc_device *d = &stalloc_devices[device];
	struct stalloc_stream *s = stalloc_stream_find(d, id);
	if (s) return s;
	pthread_mutex_lock(&streams_lock);
	size_t size = (sizeof *s + 63) / 64 * 64;
	if (!(s = stalloc_stream_find(d, id)) && (s = aligned_alloc(64, size))) {
		memset(s, 0, size);
		s->id = id;
		s->device = d;
		s->next = atomic_load(&d->streams);
		s->chain = atomic_load(&d->chains[stalloc_chain(id)]);
		atomic_store_explicit(&d->chains[stalloc_chain(id)], s, memory_order_release);
		atomic_store_explicit(&d->streams, s, memory_order_release);
		if (device >= atomic_load(&stalloc_devices_seen))
			atomic_store(&stalloc_devices_seen, device + 1);
	}
	pthread_mutex_unlock(&streams_lock);
	return s;
}
