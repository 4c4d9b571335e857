/* A stand-in for the Go engine, in C, for builds under ThreadSanitizer, which
 * does not see the order that Go code makes, and for tests of libstalloc alone.
 *
 * Its pool is malloc. At a step boundary it turns what a stream did in the step
 * into a tape whose slots are all disjoint (so every order of serving them is
 * valid) and publishes it; a block that is live at the boundary is owed. After
 * a mismatch it looks a few entries ahead. That exercises everything that the C
 * half does: quick hits, refusals, announced frees, publishing, retiring. With
 * STALLOC_TEST_LENT set it lends a pool, too (lent.h). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime.h"
#include "../tape.h"
#include "lent.h"

#define EXPORT __attribute__((visibility("default")))

struct block {
	struct block *next;
	uint64_t addr, asked, stream;
	int device;
};
/* The double's own view of a tape. */
struct tape {
	struct stalloc_tape shared; /* first: C knows its address */
	struct tape *next;	  /* of all there ever were: headers are never freed */
	uint32_t places;
	void *arena;
	bool served, gone;
};
enum { BUCKETS = 4096, AHEAD = 16 };

static struct stalloc_host host;
static bool lending;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* taken before a stream's */
static struct block *buckets[BUCKETS];
static struct tape *tapes;
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
	lending = getenv("STALLOC_TEST_LENT") != NULL;
	if (lending) lent_make(&host.devices[0]);
	return STALLOC_OK;
}

/* The stream's lock is held. */
static uint64_t look_ahead(struct stalloc_stream *s, uint64_t asked)
{
	struct stalloc_tape *t = s->tape;
	uint64_t rounded = stalloc_round(asked);
	if (!t || t->state.off) return 0;
	stalloc_drain(t);
	uint32_t at = t->state.cursor;
	for (int ahead = 0; ahead < AHEAD && t->state.owed == 0; at++) {
		const struct stalloc_entry *e = &t->entries[at];
		if (e->slot == STALLOC_NONE) break;
		ahead += e->size != 0;
		if (e->size != rounded || t->live[e->place].slot) continue;
		t->state.cursor = at;
		uint64_t addr = stalloc_take(t, rounded, asked);
		stalloc_count_in(s, addr, asked, STALLOC_EV_HIT);
		return addr;
	}
	t->state.misses++;
	return 0;
}

EXPORT int stalloc_engine_alloc(struct stalloc_stream *s, uint64_t pool, uint64_t asked, uint64_t *addr, int *hit,
				char *err, size_t n)
{
	if (pool == 0) {
		stalloc_lock(s);
		*addr = look_ahead(s, asked);
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

static struct tape *tape_of(uint64_t addr)
{
	for (struct tape *t = tapes; t; t = t->next)
		if (!t->gone && addr - t->shared.state.base < t->shared.arena_size) return t;
	return NULL;
}

/* The double's streams have no work: a pinned slot is let go at once. */
EXPORT int stalloc_engine_free_pinned(uint64_t addr, uint64_t asked)
{
	(void)asked;
	pthread_mutex_lock(&lock);
	struct tape *t = tape_of(addr);
	if (t) {
		uint32_t place = stalloc_place(&t->shared, addr - t->shared.state.base);
		stalloc_lock(t->shared.stream);
		stalloc_release(&t->shared, place);
		stalloc_unlock(t->shared.stream);
		atomic_fetch_sub(&t->shared.pinned, 1);
	}
	pthread_mutex_unlock(&lock);
	return t ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

EXPORT int stalloc_engine_record(uint64_t addr, uint64_t stream)
{
	pthread_mutex_lock(&lock);
	struct tape *t = tape_of(addr);
	if (t && t->shared.stream->id != stream) {
		uint32_t place = stalloc_place(&t->shared, addr - t->shared.state.base);
		stalloc_lock(t->shared.stream);
		if (place != STALLOC_NONE && t->shared.live[place].slot && !(t->shared.live[place].flags & STALLOC_PINNED)) {
			t->shared.live[place].flags |= STALLOC_PINNED;
			atomic_fetch_add(&t->shared.pinned, 1);
		}
		stalloc_unlock(t->shared.stream);
	}
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

/* Frees what a tape that is not served and has no live block held. */
static void retire(void)
{
	for (struct tape *t = tapes; t; t = t->next) {
		struct stalloc_tape *s = &t->shared;
		if (t->served || t->gone) continue;
		stalloc_lock(s->stream);
		stalloc_drain(s);
		bool empty = s->state.live == 0;
		stalloc_unlock(s->stream);
		if (!empty) continue;
		for (uint32_t i = 0; i < STALLOC_MAX_ARENAS; i++)
			if (atomic_load(&host.arenas[i]) == s) atomic_store(&host.arenas[i], NULL);
		t->gone = true;
		struct stalloc_engine_stats *sum = &totals[s->stream->device->ordinal];
		sum->hits += s->state.hits;
		sum->misses += s->state.misses;
		sum->reserved -= s->arena_size;
		sum->arena_bytes -= s->arena_size;
		free(s->entries);
		free(s->live);
		free(s->index);
		free(s->offsets);
		free((void *)s->deferred_next);
		free(t->arena);
	}
}

/* Disjoint slots for the requests of the step that the ring holds. */
static struct tape *lay(struct stalloc_stream *s)
{
	uint64_t tail = STALLOC_RELAXED(s->ring.tail), head = atomic_load_explicit(&s->ring.head, memory_order_acquire);
	uint64_t events = head - tail, offset = 0, cells = 16;
	uint32_t slots = 0;
	struct tape *t = calloc(1, sizeof *t);
	struct stalloc_tape *c = &t->shared;
	uint64_t *addrs = calloc(events + 1, sizeof *addrs);
	c->entries = calloc(events + 1, sizeof *c->entries);
	c->offsets = calloc(events + 1, sizeof *c->offsets);
	struct stalloc_entry *e = c->entries;
	for (; tail < head; tail++) {
		const struct stalloc_event *ev = &s->ring.events[tail % STALLOC_RING_EVENTS];
		uint32_t kind = ev->info & 0xff, slot = slots;
		if (kind == STALLOC_EV_HIT || kind == STALLOC_EV_MISS) {
			*e++ = (struct stalloc_entry){.size = ev->info >> 8, .offset = offset, .slot = slot, .place = slot};
			addrs[slots] = ev->addr;
			c->offsets[slots++] = offset;
			offset += ev->info >> 8;
		} else if (kind == STALLOC_EV_FREE) {
			while (slot > 0 && addrs[slot - 1] != ev->addr) slot--;
			if (slot == 0) continue; /* not of this step */
			addrs[slot - 1] = 0;
			*e++ = (struct stalloc_entry){.offset = c->offsets[slot - 1], .slot = slot - 1, .place = slot - 1};
		}
	}
	atomic_store_explicit(&s->ring.tail, head, memory_order_release);
	*e = (struct stalloc_entry){.slot = STALLOC_NONE, .place = STALLOC_NONE};
	free(addrs);
	while (cells < 2 * (uint64_t)slots) cells *= 2;
	c->index = calloc(cells, sizeof *c->index);
	c->index_mask = cells - 1;
	c->live = calloc(slots + 1, sizeof *c->live);
	c->deferred_next = calloc(slots + 1, sizeof *c->deferred_next);
	for (uint32_t i = 0; i < slots; i++) {
		uint64_t key = c->offsets[i] / STALLOC_GRAIN + 1, at = (key * 0x9E3779B97F4A7C15u >> 32) & c->index_mask;
		while (c->index[at]) at = (at + 1) & c->index_mask;
		c->index[at] = key << 32 | i;
	}
	t->places = slots;
	c->stream = s;
	c->arena_size = offset;
	t->arena = aligned_alloc(STALLOC_GRAIN, offset ? offset : STALLOC_GRAIN);
	c->state.base = (uint64_t)(uintptr_t)t->arena;
	return t;
}

static void publish(struct tape *t)
{
	t->next = tapes;
	tapes = t;
	for (uint32_t i = 0; i < STALLOC_MAX_ARENAS; i++) {
		if (atomic_load(&host.arenas[i])) continue;
		atomic_store(&host.arenas[i], &t->shared);
		if (i + 1 > atomic_load(host.arena_count)) atomic_store(host.arena_count, i + 1);
		return;
	}
	abort();
}

/* The tape starts over; what is live is owed. The stream's lock is held. */
static void rewind_tape(struct tape *t)
{
	struct stalloc_state *s = &t->shared.state;
	s->cursor = s->off = s->owed = 0;
	for (uint32_t place = 0; place < t->places; place++) {
		struct stalloc_live *l = &t->shared.live[place];
		l->flags &= ~(uint32_t)STALLOC_OWED;
		if (!l->slot) continue;
		if (s->owed == STALLOC_MAX_OWED) {
			s->off = 1;
			continue;
		}
		l->flags |= STALLOC_OWED;
		s->owed_at[s->owed++] = place;
	}
	stalloc_skip_freed(&t->shared);
}

static void boundary(struct stalloc_stream *s, struct stalloc_engine_stats *sum)
{
	struct tape *old = (struct tape *)s->tape;
	bool drifted, none = lending && sum->steps / 16 % 2; /* a tape that is served leaves the pool alone */
	stalloc_lock(s);
	if (old) stalloc_drain(&old->shared);
	drifted = !old || old->shared.entries[old->shared.state.cursor].slot != STALLOC_NONE || sum->steps % 5 == 0 || none;
	if (none) atomic_store_explicit(&s->ring.tail, STALLOC_RELAXED(s->ring.head), memory_order_release);
	if (old && !drifted) {
		rewind_tape(old);
		atomic_store_explicit(&s->ring.tail, STALLOC_RELAXED(s->ring.head), memory_order_release);
	} else if (old) {
		old->served = false;
		__atomic_store_n(&s->tape, NULL, __ATOMIC_RELAXED);
	}
	stalloc_unlock(s);
	if (!drifted || none) return;
	struct tape *t = lay(s);
	publish(t);
	sum->reserved += t->shared.arena_size;
	sum->arena_bytes += t->shared.arena_size;
	if (sum->reserved > sum->peak_reserved) sum->peak_reserved = sum->reserved;
	stalloc_lock(s);
	t->served = true;
	__atomic_store_n(&s->tape, &t->shared, __ATOMIC_RELAXED);
	stalloc_unlock(s);
	sum->plan_generation++;
}

EXPORT int stalloc_engine_step(int device, char *err, size_t n)
{
	(void)err, (void)n;
	if (lending) lent_boundary();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		if (device >= 0 && i != device) continue;
		totals[i].steps++;
		for (struct stalloc_stream *s = atomic_load(&host.devices[i].streams); s; s = s->next)
			boundary(s, &totals[i]);
	}
	retire();
	pthread_mutex_unlock(&lock);
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
	for (struct tape *t = tapes; t; t = t->next) {
		if (t->gone || t->shared.stream->device->ordinal != device) continue;
		stalloc_lock(t->shared.stream);
		out->hits += t->shared.state.hits;
		out->misses += t->shared.state.misses;
		stalloc_unlock(t->shared.stream);
	}
	pthread_mutex_unlock(&lock);
	return STALLOC_OK;
}

EXPORT int stalloc_engine_explain(int device, char *text, size_t n)
{
	return snprintf(text, n, "the stand-in engine serves device %d", device);
}

EXPORT int stalloc_engine_goroutines(void) { return 0; }
