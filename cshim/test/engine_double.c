/* A stand-in for the Go engine, in C, for builds under ThreadSanitizer, which
 * does not see the order that Go code makes, and for tests of libstalloc alone.
 *
 * Its pool is malloc, its plans are those of double_tapes.h. That exercises
 * everything that the C half does: quick hits, refusals, announced frees, publishing,
 * retiring. With STALLOC_TEST_LENT set it lends a pool, too (lent.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "../runtime.h"
#include "../tape.h"
#include "double_tapes.h"
#include "lent.h"

#define EXPORT __attribute__((visibility("default")))

struct block {
	struct block *next;
	uint64_t addr, asked, stream;
	int device;
};
enum { BUCKETS = 4096 };

static struct stalloc_host host;
static bool lending;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a stream's */
static struct block *buckets[BUCKETS];
static struct stalloc_engine_stats totals[STALLOC_MAX_DEVICES];

static struct block **bucket(uint64_t addr) { return &buckets[(addr >> 9) * 0x9E3779B97F4A7C15u >> 52]; }

/* Freed blocks are kept by size: malloc would give the large ones back to the
 * system each time. The lock is held. */
static struct block *spare[BUCKETS];

static struct block *take_spare(uint64_t rounded)
{
	struct block **at = &spare[rounded / STALLOC_GRAIN % BUCKETS], *b;
	while ((b = *at) && stalloc_round(b->asked) != rounded) at = &b->next;
	if (b) *at = b->next;
	return b;
}

static struct block *new_block(uint64_t rounded)
{
	struct block *b = malloc(sizeof *b);
	void *memory = aligned_alloc(STALLOC_GRAIN, rounded);
	if (b && memory) {
		b->addr = (uint64_t)(uintptr_t)memory;
		return b;
	}
	free(b);
	free(memory);
	return NULL;
}

EXPORT int stalloc_engine_start(const struct stalloc_host *h, char *err, size_t n)
{
	if (h->size != sizeof host) {
		snprintf(err, n, "the stand-in engine is of another version");
		return STALLOC_ERR_ENGINE;
	}
	host = *h;
	tapes_open(&host);
	lending = getenv("STALLOC_TEST_LENT") != NULL;
	if (lending) lent_make(&host.devices[0]);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_alloc(struct stalloc_stream *s, uint64_t pool, uint64_t asked, uint64_t *addr, int *hit,
				char *err, size_t n)
{
	static _Atomic long requests;
	const char *breaks = getenv("STALLOC_TEST_BREAKS"); /* at this request, and at no other */
	if (breaks && atomic_fetch_add(&requests, 1) + 1 == atol(breaks)) {
		snprintf(err, n, "the stand-in engine is told to break");
		return STALLOC_ERR_ENGINE;
	}
	if (pool == 0) {
		stalloc_lock(s);
		*addr = tapes_look_ahead(s, asked);
		stalloc_unlock(s);
		*hit = *addr != 0;
		if (*hit) return STALLOC_OK;
	}
	pthread_mutex_lock(&lock);
	struct block *b = take_spare(stalloc_round(asked));
	if (!b) b = new_block(stalloc_round(asked));
	if (!b) {
		pthread_mutex_unlock(&lock);
		snprintf(err, n, "malloc has no memory left");
		return STALLOC_ERR_MEMORY;
	}
	*b = (struct block){.addr = b->addr, .asked = asked, .stream = s->id, .device = s->device->ordinal};
	*addr = b->addr;
	b->next = *bucket(*addr);
	*bucket(*addr) = b;
	totals[b->device].reserved += stalloc_round(asked);
	totals[b->device].pool_bytes += stalloc_round(asked);
	if (totals[b->device].reserved > totals[b->device].peak_reserved)
		totals[b->device].peak_reserved = totals[b->device].reserved;
	pthread_mutex_unlock(&lock);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_free(uint64_t addr, struct stalloc_freed *freed)
{
	if (lending && lent_free(addr, freed)) return STALLOC_OK;
	pthread_mutex_lock(&lock);
	struct block **at = bucket(addr), *b;
	while ((b = *at) && b->addr != addr) at = &b->next;
	if (b) {
		*at = b->next;
		totals[b->device].reserved -= stalloc_round(b->asked);
		totals[b->device].pool_bytes -= stalloc_round(b->asked);
	}
	if (b) {
		*freed = (struct stalloc_freed){
			.rounded = stalloc_round(b->asked), .asked = b->asked, .stream = b->stream, .device = b->device};
		b->next = spare[freed->rounded / STALLOC_GRAIN % BUCKETS];
		spare[freed->rounded / STALLOC_GRAIN % BUCKETS] = b;
	}
	pthread_mutex_unlock(&lock);
	if (!b) return STALLOC_ERR_ARGUMENT;
	return STALLOC_OK;
}

/* The double's streams have no work: a pinned slot is let go at once. */
EXPORT int stalloc_engine_free_pinned(uint64_t addr, uint64_t asked)
{
	(void)asked;
	pthread_mutex_lock(&lock);
	bool found = tapes_unpin(addr);
	pthread_mutex_unlock(&lock);
	return found ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_record(uint64_t addr, uint64_t stream)
{
	pthread_mutex_lock(&lock);
	tapes_pin(addr, stream);
	pthread_mutex_unlock(&lock);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_base(uint64_t addr, uint64_t *start, uint64_t *size)
{
	int found = 0;
	pthread_mutex_lock(&lock);
	for (struct block *b = *bucket(addr); b; b = b->next)
		if (b->addr == addr) {
			*start = addr;
			*size = stalloc_round(b->asked);
			found = 1;
		}
	pthread_mutex_unlock(&lock);
	return found ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_step(int device, char *err, size_t n)
{
	(void)err, (void)n;
	if (lending) lent_boundary();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		if (device >= 0 && i != device) continue;
		totals[i].steps++;
		bool none = lending && totals[i].steps / 16 % 2; /* a tape that is served leaves the pool alone */
		for (struct stalloc_stream *s = atomic_load(&host.devices[i].streams); s; s = s->next)
			tapes_boundary(s, &totals[i], none);
	}
	tapes_retire(totals);
	pthread_mutex_unlock(&lock);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_first_step(int device, char *err, size_t n)
{
	(void)device, (void)err, (void)n;
	return STALLOC_OK;
}

EXPORT int stalloc_engine_trim(int device, uint64_t pool)
{
	(void)device, (void)pool;
	return STALLOC_OK;
}

EXPORT int stalloc_engine_limit(int device, double fraction)
{
	(void)device, (void)fraction;
	return STALLOC_OK;
}

EXPORT int stalloc_engine_stats(int device, struct stalloc_engine_stats *out, int reset_peak)
{
	pthread_mutex_lock(&lock);
	if (reset_peak) totals[device].peak_reserved = totals[device].reserved;
	*out = totals[device];
	tapes_count(device, out);
	pthread_mutex_unlock(&lock);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_explain(int device, char *text, size_t n)
{
	return snprintf(text, n, "the stand-in engine serves device %d", device);
}

EXPORT int stalloc_engine_goroutines(void) { return 0; }
