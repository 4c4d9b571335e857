/* Preemption: a thread that frees a block of a plan stops at any instruction of it, and
 * goes on when the plan, and the ones after it, are long replaced.
 *
 * One thread, the holder, stops first, mostly with the stream's lock taken, so that
 * the other, the late one, has to defer its free. The main thread lets the holder
 * go, takes steps until plans have been replaced and more boundaries have passed than
 * anyone waits for, and then lets the late one go. Where a stopped thread has the
 * lock that the main thread needs, a monitor notices that nothing moves and lets all go.
 * At the end nothing may be live; the build with AddressSanitizer also sees where the
 * late thread reads and writes.
 * STALLOC_TEST_SECONDS says how long (20). */
#include <stdio.h>
#include <string.h>

#include "stepper.h"

enum { N = 24, PLANS = 2, STEPS = 160, MOST = 600, STANDSTILL = 40 };

static struct stepper holder, late;
static _Atomic uint64_t moves; /* of the main thread */
static _Atomic bool over;
static uint64_t dice, program, steps, released_by_monitor;

/* Counts its own slices: where the machine stands still, nobody is let go. */
static void *monitor(void *unused)
{
	(void)unused;
	for (uint64_t last = 0, still = 0; !atomic_load(&over); still++) {
		kit_sleep_ms(1);
		uint64_t now = atomic_load(&moves);
		if (now != last) still = 0;
		last = now;
		if (still < STANDSTILL) continue;
		stepper_release(&holder);
		stepper_release(&late);
		released_by_monitor++;
		still = 0;
	}
	return NULL;
}

static void begin(struct block *b)
{
	static uint64_t sequence;
	uint64_t sizes = program;
	for (int i = 0; i < N; i++) {
		b[i] = block_get(512 + kit_below(&sizes, 5000), 0, NULL, ++sequence);
		atomic_fetch_add(&moves, 1);
	}
}

static void end(struct block *b, int from)
{
	for (int i = from; i < N; i++) {
		block_free(&b[i]);
		atomic_fetch_add(&moves, 1);
	}
	OK(stalloc_step(0));
	atomic_fetch_add(&moves, 1);
	steps++;
}

/* Steps until plans have come and gone. */
static void replace_plans(void)
{
	struct block b[N];
	uint64_t first = kit_stats().plan_generation;
	for (int i = 0, after = 0; i < MOST && after < STEPS; i++) {
		if (i % 6 == 0) program = kit_random(&dice);
		begin(b);
		end(b, 0);
		if (after > 0 || kit_stats().plan_generation >= first + PLANS) after++;
	}
}

/* Where to stop: anywhere in the call, whose length is found on the way. */
static uint32_t pick(uint32_t *longest, bool stopped, uint32_t at)
{
	if (stopped && at > *longest / 2 && *longest < 2000) *longest = at * 2;
	return 1 + (uint32_t)kit_below(&dice, *longest);
}

int main(void)
{
	double seconds = (double)kit_number("STALLOC_TEST_SECONDS", 20), start;
	uint32_t longest = 100, in_lock = 1, at = 1;
	uint64_t rounds = 0, stops = 0;
	bool stopped = false;
	struct block b[N];
	dice = kit_seed();
	kit_watchdog(60);
	stepper_prepare();
	stepper_start(&holder);
	stepper_start(&late);
	pthread_t watcher = kit_thread(monitor, NULL);
	for (start = kit_seconds(); kit_seconds() < start + seconds; rounds++) {
		begin(b);
		in_lock = 1 + (uint32_t)kit_below(&dice, longest);
		at = pick(&longest, stopped, at);
		stepper_free(&holder, b[0], in_lock);
		stopped = stepper_free(&late, b[1], at);
		stepper_release(&holder);
		stepper_wait(&holder);
		end(b, 2);
		if (stopped) replace_plans();
		stops += stopped;
		stepper_release(&late);
		stepper_wait(&late);
	}
	atomic_store(&over, true);
	pthread_join(watcher, NULL);
	stepper_end(&holder);
	stepper_end(&late);
	OK(stalloc_step(0));
	struct stalloc_stats s = kit_stats();
	printf("%llu rounds, %llu stops within %u instructions, %llu released by the monitor, %llu "
	       "steps, %llu plans, %llu hits\n", (ull)rounds, (ull)stops, longest,
	       (ull)released_by_monitor, (ull)steps, (ull)s.plan_generation, (ull)s.hits);
	CHECK(s.blocks == 0 && s.allocated == 0, "at the end %llu bytes in %llu blocks",
	      (ull)s.allocated, (ull)s.blocks);
	CHECK(stops > 0 && s.plan_generation > 1 && s.hits > 0, "no free was stopped under a plan");
	return 0;
}
