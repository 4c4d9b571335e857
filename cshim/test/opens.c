/* A region that is opened while a stream is captured: what is captured cannot be made to wait for
 * copies, and a replay may run on any stream, so they have to be over. Closing the device gives the
 * copies' streams back. Work is held back by the simulated driver until the test lets it pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static const char tag[] = "states";
static const size_t size = (size_t)6 << 20;
static void send_away(void)
{
	OK(stalloc_end_awake(0, tag, NULL, STALLOC_CHANGED | STALLOC_ALL_LEAVES));
	for (unsigned waited = 0; kit_stats().asleep == 0;) {
		kit_pass_all();
		OK(stalloc_step(0));
		kit_wait(&waited, 1, "memory that leaves");
	}
}

static long damage;
static void read_states(void *at, size_t n, unsigned long pattern)
{
	damage = kit_damage(at, n, pattern);
}

/* A replay of what was captured, on a stream that nobody has told of the region. */
static void replay(void *stream, void *at)
{
	CHECK(fake(launch)(stream, 0, read_states, at, size, 1) == 0, "no such stream");
	fake(pass_stream)(stream);
	CHECK(damage < 0, "a replay has read what was not copied back yet, at %ld", damage);
}

static void begin_capture(void *stream)
{
	stalloc_begin_pool(0, 9, 9, NULL);
	CHECK(fake(capture_begin)(stream) >= 0, "no capture");
}

static void end_capture(void *stream)
{
	CHECK(fake(capture_end)(stream) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 9, 9);
	stalloc_release_pool(0, 9, 9);
}

static void opened_beside_a_capture(void *at)
{
	void *captured = kit_stream(0, 1), *other = kit_stream(0, 1);
	send_away();
	OK(stalloc_begin_awake(0, tag, NULL));
	begin_capture(captured);
	if (stalloc_begin_awake(0, tag, captured) == STALLOC_OK) {
		replay(other, at);
	} else {
		SAYS(true, "copied back");
		kit_pass_all();
		OK(stalloc_begin_awake(0, tag, captured));
		replay(other, at);
	}
	end_capture(captured);
	OK(stalloc_end_awake(0, tag, NULL, 0));
}

/* What is closed and all on the device needs no copies. */
static void opened_in_a_capture(void *at)
{
	void *captured = kit_stream(0, 1);
	CHECK(fake(launch)(NULL, 0, read_states, at, size, 1) == 0, "no stream");
	OK(stalloc_end_awake(0, tag, NULL, 0));
	begin_capture(captured);
	CHECK(stalloc_begin_awake(0, tag, captured) != STALLOC_OK, "its last use is not over");
	kit_pass_all();
	OK(stalloc_begin_awake(0, tag, captured));
	replay(captured, at);
	end_capture(captured);
}

int main(void)
{
	setenv("FAKECUDA_HELD", "1", 1);
	kit_watchdog(60);
	OK(stalloc_begin_region(tag));
	void *at = kit_get(size, 0, NULL);
	stalloc_end_region();
	kit_fill(at, size, 1);
	long streams = fake(live)("streams") + 3; /* the test's own */
	opened_beside_a_capture(at);
	opened_in_a_capture(at);
	OK(stalloc_end_awake(0, tag, NULL, 0));
	CHECK(fake(live)("streams") > streams, "nothing is copied beside the program");
	OK(stalloc_close(0));
	CHECK(fake(live)("streams") == streams, "%ld streams, %ld before",
	      fake(live)("streams"), streams);
	CHECK(kit_damage(at, size, 1) < 0, "the region is damaged");
	stalloc_free(at, size, 0, NULL);
	kit_nothing_left("closing");
	puts("opens: a replay reads what was copied back");
	return 0;
}
