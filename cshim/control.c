/* Everything that is not an allocation: steps, limits, statistics. */
#include <stdio.h>
#include <string.h>

#include "runtime.h"
#include "tape.h"

static bool known(int device) { return device >= 0 && device < STALLOC_MAX_DEVICES; }

static _Atomic bool logged_step;

/* Ends a step, or only the first one of all, on one device or on every one. */
static int end(int device, bool first) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	char err[1024] = "";
	if (device < -1 || device >= STALLOC_MAX_DEVICES) return stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	if (!*stalloc_alive || !e) return STALLOC_OK; /* nothing was allocated yet */
	int result = (first ? e->first_step : e->step)(device, err, sizeof err);
	if (result == STALLOC_ERR_ENGINE) { /* a bug of ours is no reason to end the training */
		stalloc_log_once(&logged_step, "the engine could not end a step (%s); training goes on", err);
		result = STALLOC_OK;
	}
	for (int i = device < 0 ? 0 : device; i <= (device < 0 ? STALLOC_MAX_DEVICES - 1 : device); i++) stalloc_settle(&stalloc_devices[i]);
	return result == STALLOC_OK ? result : stalloc_fail(result, "%s", err);
}

int stalloc_step(int device) { return end(device, false); }

int stalloc_first_step(int device) { return end(device, true); }

void stalloc_empty_cache(void) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (*stalloc_alive && e) e->trim(-1, 0);
}

void stalloc_set_memory_fraction(double fraction, int device) {
	const struct stalloc_engine *e = stalloc_ready() && known(device) ? stalloc_engine(device) : NULL;
	if (e) e->limit(device, fraction);
}

void stalloc_set_device_count(int count) { (void)count; }

static uint64_t bytes_of(_Atomic int64_t *counter) {
	int64_t n = STALLOC_RELAXED(*counter);
	return n < 0 ? 0 : (uint64_t)n;
}

/* Adds up what the streams count under their locks. */
static void add_streams(struct stalloc_device *d, struct stalloc_stats *s) {
	for (struct stalloc_stream *p = atomic_load(&d->streams); p; p = p->next) {
		stalloc_lock(p);
		s->requests += p->allocations;
		s->blocks_total += p->allocations;
		s->allocated_total += p->allocated_total;
		s->freed_total += p->freed_total;
		s->lost_events += p->observed.lost;
		stalloc_unlock(p);
		s->misses += STALLOC_RELAXED(p->busy);
	}
}

int stalloc_get_stats(int device, struct stalloc_stats *out, size_t size) {
	struct stalloc_stats s = {0};
	struct stalloc_engine_stats engine = {0};
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!known(device) || !out) return stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	struct stalloc_device *d = &stalloc_devices[device];
	if (*stalloc_alive) { /* in a forked child a lock may be held for ever */
		stalloc_settle(d);
		if (e) e->stats(device, &engine, 0);
		add_streams(d, &s);
	}
	s.hits = engine.hits;
	s.misses += engine.misses;
	s.resyncs = engine.resyncs;
	s.steps = engine.steps;
	s.plan_generation = engine.plan_generation;
	s.lost_events += engine.dropped_events;
	int64_t load = STALLOC_RELAXED(d->load);
	s.allocated = (uint64_t)stalloc_load_bytes(load);
	s.peak_allocated = bytes_of(&d->peak_allocated);
	s.requested = s.allocated - bytes_of(&d->slack);
	s.peak_requested = bytes_of(&d->peak_requested);
	s.active = s.allocated + bytes_of(&d->pending);
	s.peak_active = bytes_of(&d->peak_active);
	s.blocks = (uint64_t)stalloc_load_blocks(load);
	s.peak_blocks = bytes_of(&d->peak_live);
	struct stalloc_plain_counts plain = *stalloc_alive ? stalloc_plain_counts(device) : (struct stalloc_plain_counts){0};
	s.fallback = plain.served;
	s.reserved = engine.reserved + plain.bytes;
	s.peak_reserved = engine.peak_reserved + plain.bytes;
	s.arena_bytes = engine.arena_bytes;
	s.pool_bytes = engine.pool_bytes + plain.bytes;
	s.driver_calls = engine.driver_calls;
	s.driver_ns = engine.driver_ns;
	s.retries = engine.retries;
	s.ooms = STALLOC_RELAXED(d->ooms);
	memcpy(out, &s, size < sizeof s ? size : sizeof s);
	return STALLOC_OK;
}

int stalloc_reset_peak(int device) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	struct stalloc_engine_stats ignored;
	if (!known(device)) return stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	struct stalloc_device *d = &stalloc_devices[device];
	int64_t load = STALLOC_RELAXED(d->load), allocated = stalloc_load_bytes(load);
	STALLOC_PUT(d->peak_allocated, allocated);
	STALLOC_PUT(d->peak_requested, allocated - STALLOC_RELAXED(d->slack));
	STALLOC_PUT(d->peak_live, stalloc_load_blocks(load));
	STALLOC_PUT(d->peak_active, allocated + STALLOC_RELAXED(d->pending));
	if (*stalloc_alive && e) e->stats(device, &ignored, 1);
	return STALLOC_OK;
}

int stalloc_explain(int device, char *text, size_t length) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!known(device)) return stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	const char *problem = *stalloc_alive ? stalloc_engine_problem(device) : NULL;
	if (!*stalloc_alive || (!e && !problem)) return snprintf(text, length, "stalloc has allocated nothing yet");
	int used = 0;
	if (problem)
		used = snprintf(text, length, "Plain driver allocations serve device %d, so far %llu of them, because the engine does not: %s. ",
				device, (unsigned long long)stalloc_plain_counts(device).served, problem);
	if (!e) return used;
	size_t room = (size_t)used < length ? length - (size_t)used : 0;
	int rest = e->explain(device, room ? text + used : NULL, room);
	return rest < 0 ? rest : used + rest;
}
