/* A night: see model.h. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

struct night night;

/* The device goes on by itself where the thread waits for it. */
static _Atomic uint64_t deeds_done;
static void *go_on(void *unused)
{
	for (uint64_t last = 0; !atomic_load(&over); kit_sleep_ms(50)) {
		uint64_t now = atomic_load(&deeds_done);
		if (now == last) fake(pass)(now, 1000);
		last = now;
	}
	return unused;
}

static void close_one(void)
{
	int device = (int)below((uint64_t)life.devices), open = 0;
	for (int d = 0; d < life.devices; d++) open += !night.closed[d];
	if (open < 2) return;
	reels_close(device);
	CHECK(stalloc_close(device) == STALLOC_OK || life.mishaps, "%s", stalloc_last_error());
	night.closed[device] = true;
	TELL("close %d", device);
}

static void rare(void)
{
	uint64_t dice = below(100);
	int device = (int)below((uint64_t)life.devices);
	if (dice < 25)
		CHECK(stalloc_step(chance(2) ? -1 : device) == STALLOC_OK, "%s",
		      stalloc_last_error());
	else if (dice < 40)
		stalloc_empty_cache();
	else if (dice < 60)
		stays_look();
	else if (dice < 75 && life.limits)
		quota_set(device, chance(3) ? 1 : 0.2 + (double)below(800) / 1000);
	else if (dice < 80 && life.closes)
		close_one();
	else if (dice < 94)
		lane_renew();
	else if (night.shots)
		shots_play();
}

/* A request, or what becomes of a block. The first of a device is to find out what it can do. */
static void stay_play(bool uses)
{
	struct stay *s = &night.stays[below(STAYS)];
	bool known = true;
	for (int d = 0; d < life.devices; d++) known = known && night.w->served[d] > 0;
	night.fails = known && chance(3) && call_fails();
	if (!s->p.at)
		stay_get(s);
	else if (uses)
		stay_use(s);
	else
		stay_give(s);
	if (night.fails) fake(fail)("");
	night.fails = false;
}

static void play(void)
{
	uint64_t dice = below(1000);
	if (dice < 600)
		stay_play(dice >= 520);
	else if (dice < 740)
		pass_some();
	else if (dice < 810 && night.exports)
		token_take();
	else if (dice < 845)
		dream_begin();
	else if (dice < 900)
		dream_end();
	else if (dice < 935)
		loan_begin();
	else if (dice < 970)
		loan_end();
	else if (dice < 976 && life.mishaps)
		sweep();
	else if (dice < 988 && night.reels)
		reels_play();
	else
		rare();
	quotas_check();
	atomic_fetch_add(&deeds_done, 1);
	kit_progress();
}

void night_play(struct worker *w, double seconds)
{
	double start = kit_seconds();
	night.w = w;
	night.tells = kit_number("ATTACK_TELL", 0);
	night.exports = kit_below(&w->random, 2);
	night.shots = kit_below(&w->random, 3) == 0;
	night.reels = kit_below(&w->random, 2);
	/* GMLake's algorithm lends nothing */
	night.streams = kit_below(&w->random, 3) == 0 && !life.limits &&
			!strstr(getenv("STALLOC_CONF"), "pool:gmlake");
	stays_open();
	pthread_t device = kit_thread(go_on, NULL);
	if (night.streams) once_play();
	while (kit_seconds() - start < seconds) play();
	for (int d = 0; d < life.devices; d++) quota_set(d, 1);
	reels_close(-1); /* they may have what sleeping memory needs to wake */
	dreams_close();
	for (int i = 0; i < STAYS; i++) stay_give(&night.stays[i]);
	tokens_close();
	lanes_close();
	once_close();
	atomic_store(&over, true);
	pthread_join(device, NULL);
	w->did.nights++;
}
