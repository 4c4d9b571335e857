/* A stand-in for the Go engine, in C, for builds under ThreadSanitizer, which does not see
 * the order that Go code makes, and for tests of libstalloc alone.
 *
 * Its state is a range as the engine lends it, in plain host memory, and it serves with the
 * quick cases' own functions what they leave to it. A step goes by a tape of what the one
 * before asked for, served where that was; behind one that is not as expected comes one
 * without. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "../runtime.h"
#include "../quick.h"

#define EXPORT __attribute__((visibility("default")))

enum { HEAPS = 64, BLOCKS = 1 << 16, TABLE_BITS = 18, SMALL = 128 };
#define MEMORY ((uint64_t)8 << 30)
#define LEAST (UINT64_C(8) << 11) /* units that a space grows by */

static struct stalloc_host host;
static struct stalloc_stats totals[STALLOC_MAX_DEVICES]; /* under the device's lock */
static uint64_t next_unit[STALLOC_MAX_DEVICES];

static void open_range(struct stalloc_range *r)
{
	void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	r->base = (uint64_t)(uintptr_t)memory;
	r->until = r->most = UINT64_MAX;
	r->small_limit = SMALL;
	r->block_most = BLOCKS - 1;
	r->start_shift = 64 - TABLE_BITS;
	r->starts = calloc((size_t)1 << TABLE_BITS, sizeof *r->starts);
	r->gaps = calloc(2 * BLOCKS, sizeof *r->gaps);
	r->spaces = calloc(2 * HEAPS + 2, sizeof *r->spaces);
	r->blocks = calloc(BLOCKS, sizeof *r->blocks);
	r->heaps = calloc(HEAPS + 1, sizeof *r->heaps);
	r->heap_n = 1;
	r->now.gap_n = r->now.block_n = 1;
	r->lent = 1;
}

/* The lock, and a range in it. */
static void take(struct stalloc_device *d)
{
	stalloc_lock(d);
	stalloc_drain(d);
	stalloc_sync(d);
	if (!d->range.lent) {
		open_range(&d->range);
		d->log.events = calloc(STALLOC_MOST_EVENTS, sizeof *d->log.events);
		stalloc_log_begin(&d->log, true);
		next_unit[d->ordinal] = 1;
	}
}

static uint32_t heap_of(struct stalloc_device *d, uint64_t stream)
{
	struct stalloc_range *r = &d->range;
	uint32_t heap = range_heap_of(r, stream);
	if (heap != 0 || r->heap_n > HEAPS) return heap;
	heap = r->heap_n++;
	r->heaps[heap] = (struct range_heap){.stream = stream, .spaces = {2 * heap, 2 * heap + 1}};
	r->spaces[2 * heap].heap = r->spaces[2 * heap + 1].heap = heap;
	return heap;
}

/* Makes a gap of at least n units behind everything. */
static bool grow(struct stalloc_device *d, struct range_space *s, uint64_t n)
{
	uint64_t lo = next_unit[d->ordinal], size = n > LEAST ? n : LEAST;
	if ((lo + size) * STALLOC_GRAIN > MEMORY) return false;
	next_unit[d->ordinal] += size + 1; /* no two touch */
	gap_new(&d->range, s, lo, lo + size, s->last, 0);
	return true;
}

EXPORT int stalloc_engine_start(const struct stalloc_host *h, char *err, size_t n)
{
	if (h->size != sizeof host) {
		snprintf(err, n, "the stand-in engine is of another version");
		return STALLOC_ERR_ENGINE;
	}
	host = *h;
	return STALLOC_OK;
}

EXPORT int stalloc_engine_alloc(struct stalloc_stream *st, uint64_t pool, uint64_t asked, uint64_t *addr, char *err, size_t size)
{
	static _Atomic long requests;
	const char *breaks = getenv("STALLOC_TEST_BREAKS"); /* at this request, and at no other */
	struct stalloc_device *d = st->device;
	struct stalloc_range *r = &d->range;
	uint64_t n = stalloc_units_of(asked), less = n * STALLOC_GRAIN - asked, at = 0;
	(void)pool;
	if (breaks && atomic_fetch_add(&requests, 1) + 1 == atol(breaks)) {
		snprintf(err, size, "the stand-in engine is told to break");
		return STALLOC_ERR_ENGINE;
	}
	take(d);
	*addr = stalloc_serve(d, st, asked);
	stalloc_fold(d);
	if (*addr != 0) { /* another thread had the lock; the caller counts the block */
		stalloc_count_out(d, (int64_t)(n * STALLOC_GRAIN), (int64_t)asked);
		d->counts.requests--;
		d->counts.allocated_total -= n * STALLOC_GRAIN;
		stalloc_unlock(d);
		return STALLOC_OK;
	}
	uint32_t heap = heap_of(d, st->id);
	struct range_space *s = range_space_of(r, heap, n);
	if (heap != 0 && range_room(r) && ((at = range_alloc(r, s, n, less, false)) != 0 || grow(d, s, n)) && at == 0) at = range_alloc(r, s, n, less, false);
	if (at != 0) stalloc_observe(d, at, n, heap, STALLOC_EV_MISS);
	stalloc_unlock(d);
	*addr = r->base + at * STALLOC_GRAIN;
	if (at == 0) snprintf(err, size, "the stand-in engine has no memory left");
	return at ? STALLOC_OK : STALLOC_ERR_MEMORY;
}

/* The block of the range at an address; 0: none. */
static uint32_t block_at(const struct stalloc_range *r, uint64_t addr)
{
	uint64_t offset = addr - r->base;
	return addr >= r->base && offset < MEMORY && offset % STALLOC_GRAIN == 0 ? start_get(r, offset / STALLOC_GRAIN) : 0;
}

/* Its streams have no work: what others use is free at once. */
EXPORT int stalloc_engine_free(uint64_t addr, struct stalloc_freed *freed)
{
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		struct stalloc_device *d = &host.devices[i];
		struct stalloc_range *r = &d->range;
		if (!STALLOC_RELAXED(d->streams)) continue;
		take(d);
		uint32_t b = block_at(r, addr);
		if (b != 0) {
			struct range_block *c = &r->blocks[b];
			*freed = (struct stalloc_freed){.asked = c->size * STALLOC_GRAIN - c->less, .device = i};
			stalloc_observe(d, c->at, c->size, r->spaces[c->space].heap, STALLOC_EV_FREE);
			range_free(r, b);
		}
		stalloc_unlock(d);
		if (b != 0) return STALLOC_OK;
	}
	return STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_record(uint64_t addr, uint64_t stream)
{
	struct stalloc_device *d = &host.devices[0];
	(void)stream;
	take(d);
	uint32_t b = block_at(&d->range, addr);
	if (b != 0) d->range.blocks[b].users = 1;
	stalloc_unlock(d);
	return b ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_base(uint64_t addr, uint64_t *start, uint64_t *size)
{
	struct stalloc_device *d = &host.devices[0];
	take(d);
	uint32_t b = block_at(&d->range, addr);
	*start = addr;
	if (b != 0) *size = d->range.blocks[b].size * STALLOC_GRAIN;
	stalloc_unlock(d);
	return b ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

/* A tape of the requests of the step that ends, or none. */
static struct stalloc_reel *reel_of(const struct stalloc_device *d, uint32_t heap, bool small)
{
	uint64_t *entries = malloc(((uint64_t)(d->log.next - d->log.events) + 1) * sizeof *entries);
	uint32_t n = 0;
	for (const struct stalloc_event *e = d->log.events; e != d->log.next && entries; e++) {
		uint64_t units = e->info >> 24;
		if ((e->info & 0xff) == STALLOC_EV_FREE || (e->info >> 8 & 0xffff) != heap || (units <= SMALL) != small) continue;
		entries[n++] = units << STALLOC_PLACE_BITS | (e->addr - d->range.base) / STALLOC_GRAIN;
	}
	struct stalloc_reel *r = n > 0 ? stalloc_reel_new(entries, n, false) : NULL;
	free(entries);
	return r;
}

EXPORT int stalloc_engine_step(int device, char *err, size_t n)
{
	(void)err, (void)n;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		struct stalloc_device *d = &host.devices[i];
		if ((device >= 0 && i != device) || !STALLOC_RELAXED(d->streams)) continue;
		take(d);
		if (d->range.until == 0) { /* closed */
			stalloc_unlock(d);
			continue;
		}
		totals[i].steps++;
		for (struct stalloc_stream *s = atomic_load(&d->streams); s; s = s->next)
			for (int small = 0; small < 2; small++) {
				struct stalloc_tape *t = &s->tapes[small];
				bool served = t->reel && t->state.matched == t->reel->n, failed = t->reel && !served;
				t->state = (struct stalloc_tape_state){.hits = t->state.hits, .misses = t->state.misses};
				if (served) continue;
				stalloc_reel_free(t->reel);
				stalloc_tape_play(t, s->heap && !failed ? reel_of(d, s->heap, small) : NULL);
				totals[i].plan_generation += t->reel != NULL;
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
			for (int t = 0; t < STALLOC_TAPES; t++) stalloc_tape_play(&s->tapes[t], NULL);
		d->range.until = 0;
		stalloc_log_begin(&d->log, false);
		stalloc_unlock(d);
	}
	return STALLOC_OK;
}

/* It makes no plans that could be kept. */
EXPORT int stalloc_engine_save_plan(int device, const char *path, char *err, size_t n)
{
	snprintf(err, n, "device %d has no plan for %s", device, path);
	return STALLOC_ERR_PLAN;
}

EXPORT int stalloc_engine_load_plan(int device, const char *path, char *err, size_t n)
{
	snprintf(err, n, "device %d takes no plan from %s", device, path);
	return STALLOC_ERR_PLAN;
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

EXPORT int stalloc_engine_stats(int device, struct stalloc_stats *out, int reset_peak)
{
	if (reset_peak) return STALLOC_OK;
	take(&host.devices[device]);
	*out = totals[device];
	out->reserved = (uint64_t)host.devices[device].range.now.load;
	out->peak_reserved = (uint64_t)host.devices[device].range.now.peak_load;
	stalloc_unlock(&host.devices[device]);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_nudge(void) { return STALLOC_OK; }

void stalloc_nudge(void) {}

EXPORT int stalloc_engine_explain(int device, char *text, size_t n)
{
	return snprintf(text, n, "the stand-in engine serves device %d", device);
}

EXPORT int stalloc_engine_goroutines(void) { return 0; }
