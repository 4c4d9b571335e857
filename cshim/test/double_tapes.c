#include "double_tapes.h"

#include <stdlib.h>
#include <string.h>

#include "../arenas.h"
#include "../runtime.h"
#include "../tape.h"

/* The double's own view of a tape. */
struct tape {
	struct stalloc_tape shared; /* first: C knows its address */
	struct tape *next;          /* of all there ever were: for the counts */
	uint32_t places;
	void *arena;
	bool served, gone;
};
enum { AHEAD = 16 };

static const struct stalloc_host *host;
static struct tape *tapes;

void tapes_open(const struct stalloc_host *h) { host = h; }

uint64_t tapes_look_ahead(struct stalloc_stream *s, uint64_t asked)
{
	struct stalloc_tape *t = s->tape;
	uint64_t rounded = stalloc_round(asked);
	if (!t || t->state.off) return 0;
	stalloc_drain(s);
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

static struct tape *tape_of(uint64_t addr)
{
	for (struct tape *t = tapes; t; t = t->next)
		if (!t->gone && addr - t->shared.state.base < t->shared.arena_size) return t;
	return NULL;
}

bool tapes_unpin(uint64_t addr)
{
	struct tape *t = tape_of(addr);
	if (!t) return false;
	uint32_t place = stalloc_place(&t->shared, addr - t->shared.state.base);
	stalloc_lock(t->shared.stream);
	stalloc_release(&t->shared, place);
	t->shared.pinned--;
	atomic_fetch_sub(&t->shared.stream->pinned, 1);
	stalloc_unlock(t->shared.stream);
	return true;
}

void tapes_pin(uint64_t addr, uint64_t stream)
{
	struct tape *t = tape_of(addr);
	if (!t || t->shared.stream->id == stream) return;
	uint32_t place = stalloc_place(&t->shared, addr - t->shared.state.base);
	stalloc_lock(t->shared.stream);
	if (place != STALLOC_NONE && t->shared.live[place].slot && !(t->shared.live[place].flags & STALLOC_PINNED)) {
		t->shared.live[place].flags |= STALLOC_PINNED;
		t->shared.pinned++;
		atomic_fetch_add(&t->shared.stream->pinned, 1);
	}
	stalloc_unlock(t->shared.stream);
}

void tapes_retire(struct stalloc_engine_stats *totals)
{
	for (struct tape *t = tapes; t; t = t->next) {
		struct stalloc_tape *s = &t->shared;
		if (t->served || t->gone) continue;
		stalloc_lock(s->stream);
		stalloc_drain(s->stream);
		bool empty = s->state.live == 0;
		if (empty) stalloc_unlink(s);
		stalloc_unlock(s->stream);
		if (!empty) continue;
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
		free(t->arena);
	}
}

/* Disjoint slots for the requests of the step that was observed. */
static struct tape *lay(struct stalloc_stream *s)
{
	stalloc_lock(s);
	uint64_t events = s->observed.count, offset = 0, cells = 16;
	struct stalloc_event *step = calloc(events + 1, sizeof *step);
	memcpy(step, s->observed.events, events * sizeof *step);
	s->observed.count = 0;
	stalloc_unlock(s);
	uint32_t slots = 0;
	struct tape *t = calloc(1, sizeof *t);
	struct stalloc_tape *c = &t->shared;
	uint64_t *addrs = calloc(events + 1, sizeof *addrs);
	c->entries = calloc(events + 1, sizeof *c->entries);
	c->offsets = calloc(events + 1, sizeof *c->offsets);
	struct stalloc_entry *e = c->entries;
	for (const struct stalloc_event *ev = step; ev < step + events; ev++) {
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
	free(step);
	*e = (struct stalloc_entry){.slot = STALLOC_NONE, .place = STALLOC_NONE};
	free(addrs);
	while (cells < 2 * (uint64_t)slots) cells *= 2;
	c->index = calloc(cells, sizeof *c->index);
	c->index_mask = cells - 1;
	c->live = calloc(slots + 1, sizeof *c->live);
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
	stalloc_link(host->arenas, &t->shared, NULL);
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

void tapes_boundary(struct stalloc_stream *s, struct stalloc_engine_stats *sum, bool none)
{
	struct tape *old = (struct tape *)s->tape;
	stalloc_lock(s);
	stalloc_drain(s);
	bool drifted = !old || old->shared.entries[old->shared.state.cursor].slot != STALLOC_NONE || sum->steps % 5 == 0 || none;
	if (none) s->observed.count = 0;
	if (old && !drifted) {
		rewind_tape(old);
		s->observed.count = 0;
	} else if (old) {
		old->served = false;
		__atomic_store_n(&s->tape, NULL, __ATOMIC_RELAXED);
	}
	stalloc_unlock(s);
	if (!drifted || none) return;
	struct tape *t = lay(s);
	sum->reserved += t->shared.arena_size;
	sum->arena_bytes += t->shared.arena_size;
	if (sum->reserved > sum->peak_reserved) sum->peak_reserved = sum->reserved;
	stalloc_lock(s);
	publish(t);
	t->served = true;
	__atomic_store_n(&s->tape, &t->shared, __ATOMIC_RELAXED);
	stalloc_unlock(s);
	sum->plan_generation++;
}

void tapes_count(int device, struct stalloc_engine_stats *out)
{
	for (struct tape *t = tapes; t; t = t->next) {
		if (t->gone || t->shared.stream->device->ordinal != device) continue;
		stalloc_lock(t->shared.stream);
		out->hits += t->shared.state.hits;
		out->misses += t->shared.state.misses;
		stalloc_unlock(t->shared.stream);
	}
}
