/* A stand-in for the Go engine, in C, for builds under ThreadSanitizer, which does not see the
 * order that Go code makes, and for tests of libstalloc alone.
 *
 * Its range is an index over plain host memory, and it serves with the fast path's own functions
 * what they leave to it. A step goes by a schedule of what the one before asked for, served where
 * that was; after one that is not as expected comes one without. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../lib/runtime.h"
#include "../fast/fastpath.h"

#define EXPORT __attribute__((visibility("default")))

enum { HEAPS = 64, SMALL = 128 };
#define MEMORY ((uint64_t)8 << 30)
#define LEAST (UINT64_C(8) << 11) /* units that an arena grows by */

static struct stalloc_host host;
static struct stalloc_stats totals[STALLOC_MAX_DEVICES]; /* under the device's lock */
static uint64_t next_unit[STALLOC_MAX_DEVICES];

/* What it leaves to the fast path; nothing after a close. */
static const struct stalloc_budget all = {.ops = UINT64_MAX, .max_units = UINT64_MAX};

static void open_range(struct stalloc_device *d)
{
	void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	__atomic_store_n(&d->base, (uint64_t)(uintptr_t)memory, __ATOMIC_RELAXED);
	__atomic_store_n(&d->window, MEMORY, __ATOMIC_RELEASE);
	d->small_limit = SMALL;
	d->budget = all;
	d->log.events = calloc(STALLOC_MAX_EVENTS, sizeof *d->log.events);
	stalloc_log_begin(&d->log, true);
	next_unit[d->ordinal] = 1;
}

/* The lock, a range in it, and room in its index. */
static void take(struct stalloc_device *d)
{
	stalloc_lock(d);
	stalloc_drain(d);
	if (!d->base) open_range(d);
	index_reserve(&d->index);
}

static uint32_t heap_of(struct stalloc_device *d, uint64_t stream)
{
	struct stalloc_index *x = &d->index;
	uint32_t heap = index_heap(x, stream, 0), next = x->arena_n ? x->arena_n / 2 : 1;
	if (heap != 0 || next > HEAPS) return heap;
	return index_assign(x, next, stream, 0) ? next : 0;
}

/* Makes a gap of at least n units after everything. */
static bool grow(struct stalloc_device *d, struct index_arena *s, uint64_t n)
{
	uint64_t lo = next_unit[d->ordinal], size = n > LEAST ? n : LEAST;
	if ((lo + size) * STALLOC_GRAIN > MEMORY) return false;
	next_unit[d->ordinal] += size + 1; /* no two touch */
	index_add_gap(&d->index, s, lo, lo + size, s->last, 0);
	return true;
}

EXPORT int stalloc_engine_start(const struct stalloc_host *h, char *err, size_t n)
{
	if (h->size != sizeof host || h->device != sizeof *h->devices) {
		snprintf(err, n, "the stand-in engine is of another version");
		return STALLOC_ERR_ENGINE;
	}
	host = *h;
	return STALLOC_OK;
}

EXPORT int stalloc_engine_alloc(struct stalloc_stream *st, uint64_t pool, uint64_t asked,
				uint64_t *addr, char *err, size_t size)
{
	static _Atomic long requests;
	const char *breaks = getenv("STALLOC_TEST_BREAKS"); /* at this request, and at no other */
	struct stalloc_device *d = st->device;
	uint64_t n = stalloc_units_of(asked);
	(void)pool;
	if (breaks && atomic_fetch_add(&requests, 1) + 1 == atol(breaks)) {
		snprintf(err, size, "the stand-in engine is told to break");
		return STALLOC_ERR_ENGINE;
	}
	take(d);
	if (d->budget.ops == 0) { /* closed meanwhile */
		stalloc_unlock(d);
		snprintf(err, size, "it was closed");
		return STALLOC_ERR_ENGINE;
	}
	uint32_t heap = heap_of(d, st->id);
	if (heap != 0 && (*addr = stalloc_fast_alloc(d, st, asked)) == 0) {
		struct stalloc_cursor *t = &st->cursors[n <= SMALL];
		if (cursor_expects(t, n))
			cursor_step(t, false); /* where that is not free: anywhere */
		if ((*addr = stalloc_fast_alloc(d, st, asked)) == 0 &&
		    grow(d, &d->index.arenas[2 * heap + (n <= SMALL)], n))
			*addr = stalloc_fast_alloc(d, st, asked);
	}
	if (*addr != 0) { /* the caller counts the block */
		stalloc_count_out(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
		int64_t by[STALLOC_METERS] = {1, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked};
		for (int i = 0; i < STALLOC_METERS; i++)
			d->counts.now.of[STALLOC_POOL_ALL][i].total -= by[i];
	} else {
		snprintf(err, size, "the stand-in engine has no memory left");
	}
	stalloc_unlock(d);
	return *addr ? STALLOC_OK : STALLOC_ERR_MEMORY;
}

/* The block at an address; NULL: none. */
static struct index_block *block_at(struct stalloc_device *d, uint64_t addr)
{
	uint64_t offset = addr - d->base;
	uint32_t b = addr >= d->base && offset < MEMORY && offset % STALLOC_GRAIN == 0
			     ? start_get(&d->index, offset / STALLOC_GRAIN)
			     : 0;
	return b ? &d->index.blocks[b] : NULL;
}

/* Its streams have no work: what others use is free at once. */
EXPORT int stalloc_engine_free(uint64_t addr, bool deferred, struct stalloc_freed *freed)
{
	(void)deferred;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		struct stalloc_device *d = &host.devices[i];
		if (!STALLOC_RELAXED(d->streams)) continue;
		take(d);
		struct index_block *b = block_at(d, addr);
		if (b) {
			*freed = (struct stalloc_freed){
				.asked = (uint64_t)b->size * STALLOC_GRAIN - b->slack, .device = i};
			stalloc_log_block(d, b->at, b->size, b->arena / 2, STALLOC_EV_FREE);
			index_drop(&d->index, (uint32_t)(b - d->index.blocks));
		}
		stalloc_unlock(d);
		if (b) return STALLOC_OK;
	}
	return STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_record_stream(uint64_t addr, uint64_t stream)
{
	struct stalloc_device *d = &host.devices[0];
	(void)stream;
	take(d);
	struct index_block *b = block_at(d, addr);
	if (b) index_mark(&d->index, b, INDEX_KEPT);
	stalloc_unlock(d);
	return b ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_base(uint64_t addr, uint64_t *start, uint64_t *size)
{
	struct stalloc_device *d = &host.devices[0];
	take(d);
	struct index_block *b = block_at(d, addr);
	*start = addr;
	if (b) *size = (uint64_t)b->size * STALLOC_GRAIN;
	stalloc_unlock(d);
	return b ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

/* Has a cursor follow the requests of the step that ends, or nothing. */
static void play(struct stalloc_device *d, struct stalloc_cursor *t, uint32_t heap, bool small,
		 bool on)
{
	uint64_t *entries =
		on ? malloc(((uint64_t)(d->log.next - d->log.events) + 1) * sizeof *entries) : NULL;
	uint32_t n = 0;
	for (const struct stalloc_event *e = d->log.events; entries && e != d->log.next; e++) {
		uint64_t units = e->info >> 24;
		if ((e->info & 0xff) == STALLOC_EV_FREE || (e->info >> 8 & 0xffff) != heap ||
		    (units <= SMALL) != small)
			continue;
		entries[n++] = units << INDEX_PLACE_BITS | (e->addr - d->base) / STALLOC_GRAIN;
	}
	free((void *)t->entries);
	t->entries = entries;
	t->n = n;
}

EXPORT int stalloc_engine_step(int device, char *err, size_t n)
{
	(void)err, (void)n;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		struct stalloc_device *d = &host.devices[i];
		if ((device >= 0 && i != device) || !STALLOC_RELAXED(d->streams)) continue;
		take(d);
		if (d->budget.ops == 0) { /* closed */
			stalloc_unlock(d);
			continue;
		}
		totals[i].steps++;
		for (struct stalloc_stream *s = atomic_load(&d->streams); s; s = s->next)
			for (int small = 0; small < 2; small++) {
				struct stalloc_cursor *t = &s->cursors[small];
				bool served = t->n && t->at == t->n && !t->diverged,
				     failed = t->n && !served;
				t->at = 0;
				t->diverged = false;
				if (served) continue;
				play(d, t, s->heap, small, s->heap && !failed);
				totals[i].plan_generation += t->n > 0;
			}
		stalloc_log_begin(&d->log, true);
		stalloc_unlock(d);
	}
	return STALLOC_OK;
}

/* Its memory is the host's and stays; it serves no more. */
EXPORT int stalloc_engine_close(int device, char *err, size_t n)
{
	(void)err, (void)n;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		struct stalloc_device *d = &host.devices[i];
		if ((device >= 0 && i != device) || !STALLOC_RELAXED(d->streams)) continue;
		take(d);
		for (struct stalloc_stream *s = atomic_load(&d->streams); s; s = s->next)
			for (int small = 0; small < STALLOC_CURSORS; small++)
				play(d, &s->cursors[small], 0, small, false);
		d->budget.ops = 0;
		stalloc_log_begin(&d->log, false);
		stalloc_unlock(d);
	}
	return STALLOC_OK;
}

/* What it has not is no error where a program can go on without. */
static int serve_on(void) { return STALLOC_OK; }
static int refuse(void) { return STALLOC_ERR_ENGINE; }
#define ANSWER(name, as) EXPORT int stalloc_engine_##name() __attribute__((alias(#as)))
ANSWER(trim, serve_on);
ANSWER(capture, serve_on);
ANSWER(region, serve_on); /* every region is the default pool */
ANSWER(limit, serve_on);
ANSWER(nudge, serve_on);
ANSWER(goroutines, serve_on);
ANSWER(save_plan, refuse);
ANSWER(load_plan, refuse);
ANSWER(sleep, refuse);
ANSWER(awake, refuse);
ANSWER(export, refuse);

EXPORT int stalloc_engine_stats(int device, struct stalloc_stats *out, int reset_peak)
{
	if (reset_peak) return STALLOC_OK;
	take(&host.devices[device]);
	*out = totals[device];
	out->reserved = (uint64_t)host.devices[device].index.now.load * STALLOC_GRAIN;
	out->peak_reserved = (uint64_t)host.devices[device].index.now.peak_load * STALLOC_GRAIN;
	stalloc_unlock(&host.devices[device]);
	return STALLOC_OK;
}

void stalloc_nudge(void) {}

EXPORT int stalloc_engine_explain(int device, char *text, size_t n)
{
	return snprintf(text, n, "the stand-in engine serves device %d", device);
}
