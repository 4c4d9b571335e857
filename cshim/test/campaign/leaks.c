/* A run leaves nothing. While blocks are alive the statistics agree with what
 * the threads know; when all are freed, all pools released and all streams destroyed, the
 * driver has everything back, and nearly all of the device can be had in one block. */
#include <stdio.h>
#include <stdlib.h>

#include "run.h"

enum { GOROUTINES = 40, MOST_THREADS = 40, MOST_EVENTS = 4000 };

/* The threads are gone, their blocks are not. */
static void stats_agree(int device, const struct worker *workers, struct worker *w)
{
	uint64_t bytes, requested, served = w->served[device];
	uint64_t n = shared_live(device, &bytes, &requested);
	n += regions_live(device, &bytes, &requested);
	for (int i = 0; i < run.threads; i++) served += workers[i].served[device];
	struct stalloc_stats s = kit_stats_of(device);
	CHECK(s.blocks == n && s.allocated == bytes && s.requested == requested,
	      "device %d has %llu bytes in %llu blocks, %llu requested; the statistics say %llu in "
	      "%llu, %llu", device, (ull)bytes, (ull)n, (ull)requested, (ull)s.allocated,
	      (ull)s.blocks, (ull)s.requested);
	CHECK(s.requests == served && s.allocated_total - s.freed_total == s.allocated,
	      "device %d served %llu requests, the statistics say %llu", device,
	      (ull)served, (ull)s.requests);
	CHECK(s.allocated <= s.reserved + s.asleep,
	      "%llu bytes allocated, %llu reserved, %llu asleep", (ull)s.allocated,
	      (ull)s.reserved, (ull)s.asleep);
	w->did.requests += served;
	w->did.hits += s.hits;
	w->did.steps += s.steps;
	w->did.plans += s.plan_generation;
	w->did.plain += s.fallback;
}

static void no_leaks(void)
{
	/* Go unpins beside us; what could not be unpinned is tried again. */
	for (unsigned waited = 0; fake(live)("pins") > 0; stalloc_empty_cache())
		kit_wait(&waited, 5, "the last unpinning");
	for (int i = 0; i < run.devices; i++) {
		struct stalloc_stats s = kit_stats_of(i);
		CHECK(s.blocks == 0 && s.allocated == 0 && s.requested == 0 && s.active == 0 &&
			      s.backup == 0,
		      "device %d: all is freed, %llu bytes in %llu blocks stay, %llu active, "
		      "%llu on the host", i, (ull)s.allocated, (ull)s.blocks, (ull)s.active,
		      (ull)s.backup);
		if (s.reserved) {
			char text[8000];
			stalloc_explain(i, text, sizeof text);
			puts(text);
		}
		CHECK(s.reserved == 0, "device %d: all is freed, %llu bytes stay reserved", i,
		      (ull)s.reserved);
	}
	long handles = fake(live)("handles"), mappings = fake(live)("mappings"),
	     blocks = fake(live)("blocks");
	CHECK(handles == 0 && mappings == 0 && blocks == 0,
	      "the driver has %ld handles, %ld mappings and %ld plain blocks left", handles,
	      mappings, blocks);
	CHECK(fake(live)("dead calls") == 0,
	      "%ld driver calls named a stream that was destroyed", fake(live)("dead calls"));
}

/* A device that is empty gives what it has. */
static void all_allocatable(void)
{
	size_t quarter = run.capacity / 4, spare = quarter < 32 << 20 ? quarter : 32 << 20;
	for (int i = 0; i < run.devices; i++) {
		void *all = stalloc_malloc(
			(run.limits ? run.capacity / 2 : run.capacity) - spare, i, NULL);
		CHECK(all, "device %d is empty: %s", i, stalloc_last_error());
		stalloc_free(all, 0, i, NULL);
		kit_progress();
	}
}

/* What does not grow with the run: an engine and plain blocks keep a context each. */
static void bounded(void)
{
	int (*goroutines)(void), threads = kit_threads();
	long events = fake(live)("events"), reserved = fake(live)("reservations"),
	     contexts = fake(live)("contexts");
	printf("left: %d threads, %ld events, %ld reservations, %ld contexts, %zu MiB\n", threads,
	       events, reserved, contexts, kit_resident() >> 20);
	CHECK(threads <= MOST_THREADS && events <= MOST_EVENTS * run.devices,
	      "%d threads and %ld events at the end", threads, events);
	CHECK(run.faults || (reserved <= run.devices && contexts <= 3 * run.devices),
	      "%ld reservations and %ld contexts of %d devices at the end", reserved, contexts,
	      run.devices);
	if (!run.engine) return;
	*(void **)&goroutines = kit_symbol("engine", "stalloc_engine_goroutines");
	CHECK(goroutines() <= GOROUTINES, "%d goroutines at the end", goroutines());
}

static void settle(void)
{
	for (int i = 0; i < 3; i++) OK(stalloc_step(-1));
	stalloc_empty_cache();
	kit_progress();
}

void leak_check(struct worker *workers, struct worker *w)
{
	/* A free may wait on another device than its block's, if that was named. */
	for (int i = 0; i < run.devices; i++) kit_stats_of(i);
	for (int i = 0; i < run.devices; i++) {
		stats_agree(i, workers, w);
		if (run.limits) stalloc_set_memory_fraction(1, i);
	}
	shared_clear(w);
	regions_clear(w);
	graphs_close();
	slots_close();
	settle();
	if (run.ends_closed) OK(stalloc_close(-1));
	no_leaks();
	all_allocatable();
	settle();
	no_leaks();
	bounded();
}
