//go:build porttest

// The program's side of a port in a test: libstalloc's own sources over a stand-in for
// the exports of the engine, of which only a free that no tape knows is anything.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../runtime.h"
#include "../tape.h"
#include "porttest.h"

static pthread_mutex_t front = PTHREAD_MUTEX_INITIALIZER;
static struct porttest_block taken[PORTTEST_MOST];
static uint64_t freed[PORTTEST_MOST], left[PORTTEST_MOST];
static int taken_count, freed_count, left_count, unknown_count;

void porttest_takes(struct porttest_block b)
{
	pthread_mutex_lock(&front);
	if (taken_count < PORTTEST_MOST) taken[taken_count++] = b;
	pthread_mutex_unlock(&front);
}

static int front_free(uint64_t addr, struct stalloc_freed *out)
{
	int found = STALLOC_ERR_ARGUMENT;
	pthread_mutex_lock(&front);
	for (int i = 0; i < taken_count && found != STALLOC_OK; i++) {
		struct porttest_block *b = &taken[i];
		if (b->addr != addr) continue;
		*out = (struct stalloc_freed){.rounded = stalloc_round(b->asked), .asked = b->asked, .stream = b->stream};
		*b = taken[--taken_count];
		if (freed_count < PORTTEST_MOST) freed[freed_count++] = addr;
		found = STALLOC_OK;
	}
	unknown_count += found != STALLOC_OK;
	pthread_mutex_unlock(&front);
	return found;
}

static int front_free_pinned(uint64_t addr, uint64_t asked)
{
	(void)asked;
	pthread_mutex_lock(&front);
	if (left_count < PORTTEST_MOST) left[left_count++] = addr;
	pthread_mutex_unlock(&front);
	return STALLOC_OK;
}

static int front_alloc(struct stalloc_stream *s, uint64_t pool, uint64_t asked, uint64_t *addr, int *hit, char *err, size_t n)
{
	(void)s, (void)pool, (void)asked, (void)addr, (void)hit, (void)err, (void)n;
	return STALLOC_ERR_MEMORY;
}

static int front_stats(int device, struct stalloc_engine_stats *out, int reset)
{
	(void)device, (void)out, (void)reset;
	return STALLOC_OK;
}

int porttest_freed(uint64_t *out, int *unknown)
{
	pthread_mutex_lock(&front);
	int n = freed_count;
	memcpy(out, freed, (size_t)n * sizeof *out);
	*unknown = unknown_count;
	freed_count = unknown_count = 0;
	pthread_mutex_unlock(&front);
	return n;
}

int porttest_left(uint64_t *out)
{
	pthread_mutex_lock(&front);
	int n = left_count;
	memcpy(out, left, (size_t)n * sizeof *out);
	left_count = 0;
	pthread_mutex_unlock(&front);
	return n;
}

static const struct stalloc_engine front_engine = {
	.alloc = front_alloc,
	.free = front_free,
	.free_pinned = front_free_pinned,
	.stats = front_stats,
};

const struct stalloc_engine *stalloc_engine(int device) { (void)device; return &front_engine; }
const struct stalloc_engine *stalloc_engine_if_open(void) { return &front_engine; }
void stalloc_engine_give_up(int device, const char *why) { (void)device, (void)why; }
const char *stalloc_engine_problem(int device) { (void)device; return NULL; }
