/* Steps, limits, statistics and plans: the calls that are no allocation. */
#include <stdio.h>
#include <string.h>

#include "deferred.h"
#include "page.h"

/* After a step, a trim or a close, on one device or on all: performs the deferred frees and updates
 * the shared page. */
static void drain_and_publish(int device, bool last) {
	struct stalloc_stats s;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		if ((device >= 0 && i != device) || !atomic_load(&stalloc_devices[i].streams))
			continue;
		stalloc_drain_now(&stalloc_devices[i]);
		if (last || stalloc_page_due(i)) stalloc_get_stats(i, &s, sizeof s);
	}
}

int stalloc_step(int device) {
	static _Atomic bool logged;
	const struct stalloc_engine *e = stalloc_engine_if_open();
	char err[1024] = "";
	if (stalloc_check_device(device, -1)) return STALLOC_ERR_ARGUMENT;
	if (!*stalloc_alive) return STALLOC_OK;
	/* Without an engine nothing was allocated yet. */
	int result = e ? e->step(device, err, sizeof err) : STALLOC_OK;
	if (result == STALLOC_ERR_ENGINE) { /* a bug of ours must not end the training */
		stalloc_log_once(&logged, "the engine could not end a step (%s); training goes on",
				 err);
		result = STALLOC_OK;
	}
	stalloc_end_failed_captures();
	stalloc_settle_pools();
	drain_and_publish(device, false);
	return stalloc_fail(result, "%s", err);
}

int stalloc_close(int device) {
	char err[1024] = "";
	if (stalloc_check_device(device, -1)) return STALLOC_ERR_ARGUMENT;
	if (!stalloc_ready()) return STALLOC_OK;
	/* First: later failures are not the engine's. */
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++)
		if (device < 0 || i == device) stalloc_engine_give_up(i, "it was closed");
	const struct stalloc_engine *e = stalloc_engine_if_open();
	int result = e ? e->close(device, err, sizeof err) : STALLOC_OK;
	stalloc_plain_retry_frees();
	drain_and_publish(device, true);
	return stalloc_fail(result, "the engine could not be closed: %s", err);
}

void stalloc_empty_cache(void) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!*stalloc_alive) return; /* in a forked child a lock may be held for ever */
	stalloc_end_failed_captures();
	if (e) e->trim(-1, 0);
	stalloc_plain_retry_frees();
	drain_and_publish(-1, false);
}

int stalloc_set_memory_fraction(double fraction, int device) {
	static _Atomic bool logged;
	char err[1024] = "the engine cannot be used";
	int result = STALLOC_ERR_ARGUMENT;
	if (!stalloc_is_device(device)) {
		snprintf(err, sizeof err, "there is no device %d", device);
	} else if (!(fraction >= 0 && fraction <= 1)) {
		snprintf(err, sizeof err,
			 "%g is no fraction of a device's memory: expected one from 0 to 1",
			 fraction);
	} else {
		const struct stalloc_engine *e = stalloc_ready() ? stalloc_engine(device) : NULL;
		const char *problem = stalloc_engine_problem(device);
		if (problem) snprintf(err, sizeof err, "%s", problem);
		if (!*stalloc_alive) return STALLOC_OK;
		result = e ? e->limit(device, fraction, err, sizeof err) : STALLOC_ERR_ENGINE;
	}
	if (result == STALLOC_OK) return result;
	/* PyTorch ignores the result. */
	stalloc_log_once(&logged,
			 "the memory fraction is not set, and the limit is what it was: %s", err);
	return stalloc_fail(result, "the memory fraction is not set: %s", err);
}

void stalloc_set_device_count(int count) { (void)count; }

static uint64_t positive(int64_t n) { return n < 0 ? 0 : (uint64_t)n; }

/* Adds what C counts. */
static void add_counts(struct stalloc_device *d, struct stalloc_stats *s) {
	stalloc_lock(d);
	const struct stalloc_counts c = d->counts;
	const struct stalloc_meter *now = c.now.of[STALLOC_POOL_ALL];
	s->active = positive(now[STALLOC_ALLOCATED].current + stalloc_pending(d));
	s->lost_events += d->log.lost_ever;
	for (struct stalloc_stream *p = atomic_load(&d->streams); p; p = p->next)
		for (int i = 0; i < STALLOC_CURSORS; i++) {
			s->hits += p->cursors[i].hits;
			s->misses += p->cursors[i].misses;
		}
	stalloc_unlock_and_drain(d);
	s->requests = s->blocks_total = (uint64_t)now[STALLOC_BLOCKS].total;
	s->allocated_total = (uint64_t)now[STALLOC_ALLOCATED].total;
	s->freed_total = (uint64_t)(now[STALLOC_ALLOCATED].total - now[STALLOC_ALLOCATED].current);
	s->allocated = positive(now[STALLOC_ALLOCATED].current);
	s->peak_allocated = positive(c.peak[STALLOC_ALLOCATED]);
	s->requested = positive(now[STALLOC_REQUESTED].current);
	s->peak_requested = positive(c.peak[STALLOC_REQUESTED]);
	s->peak_active = positive(c.peak_active);
	s->blocks = positive(now[STALLOC_BLOCKS].current);
	s->peak_blocks = positive(c.peak[STALLOC_BLOCKS]);
	s->ooms = STALLOC_RELAXED(d->ooms);
}

static void add_plain(int device, struct stalloc_stats *s) {
	struct stalloc_plain_counts plain = stalloc_plain_counts(device);
	/* What the engine held at that peak is not known. */
	if (s->peak_reserved < s->reserved + plain.peak)
		s->peak_reserved = s->reserved + plain.peak;
	s->reserved += plain.bytes;
	s->fallback = plain.served;
	/* The simulation has not seen the plain allocations. */
	if (plain.served > 0) s->native_peak_reserved = s->native_steps = s->native_ooms = 0;
}

int stalloc_get_stats(int device, struct stalloc_stats *out, size_t size) {
	struct stalloc_stats s = {0};
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (stalloc_check_device(device, 0)) return STALLOC_ERR_ARGUMENT;
	if (!out)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "out must not be NULL: the statistics are written there");
	struct stalloc_device *d = &stalloc_devices[device];
	if (*stalloc_alive) { /* in a forked child a lock may be held for ever */
		stalloc_drain_now(d);
		if (e) e->stats(device, &s, 0);
		add_counts(d, &s);
		add_plain(device, &s);
		stalloc_page_put(device, &s);
	}
	memcpy(out, &s, size < sizeof s ? size : sizeof s);
	return STALLOC_OK;
}

int stalloc_reset_peak(int device) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (stalloc_check_device(device, 0)) return STALLOC_ERR_ARGUMENT;
	if (!*stalloc_alive) return STALLOC_OK;
	struct stalloc_device *d = &stalloc_devices[device];
	stalloc_lock(d);
	const struct stalloc_meter *now = d->counts.now.of[STALLOC_POOL_ALL];
	for (int i = 0; i < STALLOC_METERS; i++) d->counts.peak[i] = now[i].current;
	d->counts.peak_active = now[STALLOC_ALLOCATED].current + stalloc_pending(d);
	stalloc_unlock_and_drain(d);
	if (e) e->stats(device, NULL, 1);
	stalloc_plain_reset_peak(device);
	stalloc_drain_now(d);
	return STALLOC_OK;
}

int stalloc_explain(int device, char *text, size_t length) {
	char beside[2048] = ""; /* what the engine does not know */
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (stalloc_check_device(device, 0)) return STALLOC_ERR_ARGUMENT;
	const char *problem = *stalloc_alive ? stalloc_engine_problem(device) : NULL;
	size_t imported = *stalloc_alive ? stalloc_imported_bytes(device) : 0, used = 0;
	if (imported)
		used = (size_t)snprintf(
			beside, sizeof beside,
			"%.2f MiB of other processes are mapped here and held there. ",
			(double)imported / (1 << 20));
	if (problem)
		used += (size_t)snprintf(
			beside + used, sizeof beside - used,
			"Plain driver allocations serve device %d, so far %llu of them, because "
			"the engine does not: %s. ",
			device, (unsigned long long)stalloc_plain_counts(device).served, problem);
	if (!e)
		return snprintf(text, length, "%s%s", beside,
				problem ? "" : "stalloc has allocated nothing yet");
	snprintf(text, length, "%s", beside);
	size_t room = used < length ? length - used : 0;
	int rest = e->explain(device, room ? text + used : NULL, room);
	return rest < 0 ? rest : (int)used + rest;
}

static int check_file(int device, const char *path) {
	if (!path) return stalloc_fail(STALLOC_ERR_ARGUMENT, "no file is named");
	return stalloc_check_device(device, 0);
}

int stalloc_save_plan(int device, const char *path) {
	char err[1024] = "nothing was allocated yet";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (check_file(device, path)) return STALLOC_ERR_ARGUMENT;
	int result = e ? e->save_plan(device, path, err, sizeof err) : STALLOC_ERR_PLAN;
	return stalloc_fail(result, "the plan %s cannot be saved: %s", path, err);
}

int stalloc_load_plan(int device, const char *path) {
	char err[1024] = "the engine cannot be used";
	if (check_file(device, path)) return STALLOC_ERR_ARGUMENT;
	const struct stalloc_engine *e = stalloc_ready() ? stalloc_engine(device) : NULL;
	int result = e ? e->load_plan(device, path, err, sizeof err) : STALLOC_ERR_ENGINE;
	if (!e && stalloc_engine_problem(device))
		snprintf(err, sizeof err, "%s", stalloc_engine_problem(device));
	return stalloc_fail(result, "the plan %s cannot be loaded: %s", path, err);
}
