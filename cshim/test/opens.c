/* A region that is opened while a stream is captured: what is captured cannot be made to wait for
 * copies, and a replay may run on any stream, so they have to be over. Closing the device gives the
 * copies' streams back. Work is held back by the simulated driver until the test lets it pass. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit.h"

static const char tag[] = "states";
static const size_t size = (size_t)6 << 20;
static int (*pass)(unsigned long, long);
static int (*capture_begin)(void *), (*capture_end)(void *);
static int (*launch)(void *, int, void (*)(void *, size_t, unsigned long), void *, size_t,
		     unsigned long);
static void (*pass_stream)(void *);

static void pass_all(void)
{
	for (unsigned long n = 0; pass(n, 1 << 20); n++) {}
}

static void send_away(void)
{
	CHECK(stalloc_end_awake(0, tag, NULL, STALLOC_CHANGED | STALLOC_ALL_LEAVES) == STALLOC_OK,
	      "%s", stalloc_last_error());
	for (int i = 0; kit_stats().asleep == 0; i++) {
		CHECK(i < 1000, "nothing leaves");
		pass_all();
		CHECK(stalloc_step(0) == STALLOC_OK, "%s", stalloc_last_error());
		kit_sleep_ms(1);
	}
}

static void *new_stream(void)
{
	int (*make)(void **, unsigned), (*retain)(void **, int), (*push)(void *), (*pop)(void **);
	void *context, *s;
	*(void **)&make = kit_symbol("driver", "cuStreamCreate");
	*(void **)&retain = kit_symbol("driver", "cuDevicePrimaryCtxRetain");
	*(void **)&push = kit_symbol("driver", "cuCtxPushCurrent_v2");
	*(void **)&pop = kit_symbol("driver", "cuCtxPopCurrent_v2");
	CHECK(!retain(&context, 0) && !push(context) && !make(&s, 1) && !pop(&context),
	      "no stream");
	return s;
}

static long damage;
static void read_states(void *at, size_t n, unsigned long pattern)
{
	damage = kit_damage(at, n, pattern);
}

/* A replay of what was captured, on a stream that nobody has told of the region. */
static void replay(void *stream, void *at)
{
	CHECK(launch(stream, 0, read_states, at, size, 1) == 0, "no such stream");
	pass_stream(stream);
	CHECK(damage < 0, "a replay has read what was not copied back yet, at %ld", damage);
}

static void opened_beside_a_capture(void *at)
{
	void *captured = new_stream(), *other = new_stream();
	send_away();
	CHECK(stalloc_begin_awake(0, tag, NULL) == STALLOC_OK, "%s", stalloc_last_error());
	stalloc_begin_pool(0, 9, 9, NULL);
	CHECK(capture_begin(captured) >= 0, "no capture");
	if (stalloc_begin_awake(0, tag, captured) == STALLOC_OK) {
		replay(other, at);
	} else {
		CHECK(strstr(stalloc_last_error(), "copied back"), "%s", stalloc_last_error());
		pass_all();
		CHECK(stalloc_begin_awake(0, tag, captured) == STALLOC_OK, "%s",
		      stalloc_last_error());
		replay(other, at);
	}
	CHECK(capture_end(captured) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 9, 9);
	stalloc_release_pool(0, 9, 9);
	CHECK(stalloc_end_awake(0, tag, NULL, 0) == STALLOC_OK, "%s", stalloc_last_error());
}

/* What is closed and all on the device needs no copies. */
static void opened_in_a_capture(void *at)
{
	void *captured = new_stream();
	CHECK(launch(NULL, 0, read_states, at, size, 1) == 0, "no stream");
	CHECK(stalloc_end_awake(0, tag, NULL, 0) == STALLOC_OK, "%s", stalloc_last_error());
	stalloc_begin_pool(0, 9, 9, NULL);
	CHECK(capture_begin(captured) >= 0, "no capture");
	CHECK(stalloc_begin_awake(0, tag, captured) != STALLOC_OK, "its last use is not over");
	pass_all();
	CHECK(stalloc_begin_awake(0, tag, captured) == STALLOC_OK, "%s", stalloc_last_error());
	replay(captured, at);
	CHECK(capture_end(captured) == 1, "the capture was invalidated");
	stalloc_end_pool(0, 9, 9);
	stalloc_release_pool(0, 9, 9);
}

int main(void)
{
	setenv("FAKECUDA_HELD", "1", 1);
	kit_watchdog(60);
	*(void **)&pass = kit_symbol("driver", "fakecuda_pass");
	*(void **)&pass_stream = kit_symbol("driver", "fakecuda_pass_stream");
	*(void **)&launch = kit_symbol("driver", "fakecuda_launch");
	*(void **)&capture_begin = kit_symbol("driver", "fakecuda_capture_begin");
	*(void **)&capture_end = kit_symbol("driver", "fakecuda_capture_end");
	CHECK(stalloc_begin_region(tag) == STALLOC_OK, "%s", stalloc_last_error());
	void *at = stalloc_malloc(size, 0, NULL);
	CHECK(at, "%s", stalloc_last_error());
	stalloc_end_region();
	kit_fill(at, size, 1);
	long streams = kit_fake_live("streams") + 3; /* the test's own */
	opened_beside_a_capture(at);
	opened_in_a_capture(at);
	CHECK(stalloc_end_awake(0, tag, NULL, 0) == STALLOC_OK, "%s", stalloc_last_error());
	CHECK(kit_fake_live("streams") > streams, "nothing is copied beside the program");
	CHECK(stalloc_close(0) == STALLOC_OK, "%s", stalloc_last_error());
	CHECK(kit_fake_live("streams") == streams, "%ld streams, %ld before",
	      kit_fake_live("streams"), streams);
	CHECK(kit_damage(at, size, 1) < 0, "the region is damaged");
	stalloc_free(at, size, 0, NULL);
	CHECK(kit_stats().reserved == 0 && kit_fake_live("pins") == 0, "%llu are held, %ld pinned",
	      (unsigned long long)kit_stats().reserved, kit_fake_live("pins"));
	puts("opens: a replay reads what was copied back");
	return 0;
}
