/* The lock of a device (lock.h) alone: one is inside at a time, threads come and go, the bias
 * begins and ends; and whoever spins a bounded number of times comes back, however long
 * the holder stays: Go relies on that, see lock.h. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define stalloc_nudge counted_nudge /* this program's own */
#include "../fast/shared.h"
#include "kit.h"

enum { THREADS = 4, ROUNDS = 12, BURSTS = 40 };

static struct stalloc_device d;
static uint64_t counter, inside; /* under the lock */
static _Atomic uint64_t wanted;
static _Atomic int holder; /* 1: has the lock; 2: is to leave */

static _Atomic int nudged;

void counted_nudge(void) { atomic_fetch_add(&nudged, 1); }

static void critical(uint64_t me)
{
	CHECK(inside == 0, "two are inside");
	inside = me;
	counter++;
	CHECK(inside == me, "two are inside");
	inside = 0;
}

/* Bursts long enough to bias the lock, by each way into it. */
static void *work(void *argument)
{
	uint64_t me = (uintptr_t)argument, r = me * 7919, n = 0;
	for (int burst = 0; burst < BURSTS; burst++) {
		uint64_t way = kit_below(&r, 3),
			 length = kit_below(&r, 4) ? kit_below(&r, 50) : kit_below(&r, 1000);
		for (uint64_t i = 0; i < length; i++) {
			if (way == 0)
				stalloc_lock(&d);
			else if (!(way == 1 ? stalloc_lock_try_exchange(&d.lock, 0)
					    : stalloc_try_lock(&d))) /* as Go and as a free */
				continue;
			critical(me);
			stalloc_unlock(&d);
			n++;
		}
		kit_progress();
		if (kit_below(&r, 4) == 0) sched_yield();
	}
	atomic_fetch_add(&wanted, n);
	return NULL;
}

static void exclusion(void)
{
	pthread_t threads[THREADS];
	for (uintptr_t round = 0; round < ROUNDS; round++) {
		for (uintptr_t i = 0; i < THREADS; i++)
			threads[i] = kit_thread(work, (void *)(round * THREADS + i + 1));
		for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	}
	CHECK(counter == wanted, "%llu were inside, %llu counted", (ull)wanted, (ull)counter);
}

/* Takes the lock, so often that it is biased if so said, and stays inside. */
static void *hold(void *times)
{
	for (uintptr_t i = 1; i < (uintptr_t)times; i++) {
		stalloc_lock(&d);
		stalloc_unlock(&d);
	}
	stalloc_lock(&d);
	atomic_store(&holder, 1);
	while (atomic_load(&holder) != 2) kit_sleep_ms(1);
	stalloc_unlock(&d);
	return NULL;
}

static void comes_back(uintptr_t times)
{
	atomic_store(&holder, 0);
	pthread_t thread = kit_thread(hold, (void *)times);
	while (atomic_load(&holder) != 1) kit_sleep_ms(1);
	for (int i = 0; i < 100; i++) {
		CHECK(!stalloc_try_lock(&d), "two are inside");
		CHECK(!stalloc_lock_try_exchange(&d.lock, STALLOC_GO_SPINS), "two are inside");
		kit_progress();
	}
	atomic_store(&holder, 2);
	stalloc_lock(&d);
	stalloc_unlock(&d);
	pthread_join(thread, NULL);
}

static void *enter(void *argument)
{
	stalloc_lock(&d);
	critical((uintptr_t)argument);
	stalloc_unlock(&d);
	return NULL;
}

/* Whoever has fallen asleep is woken, one by the other, where Go has had the lock. */
static void all_wake(void)
{
	pthread_t threads[THREADS];
	CHECK(stalloc_lock_try_exchange(&d.lock, 0), "it is taken");
	for (uintptr_t i = 0; i < THREADS; i++) threads[i] = kit_thread(enter, (void *)(i + 1));
	while (atomic_load(&d.lock.state) != STALLOC_CONTENDED) kit_sleep_ms(1);
	atomic_store(&nudged, 0);
	while (atomic_load(&nudged) < 2 * THREADS)
		kit_sleep_ms(1); /* they go to Go while they wait */
	stalloc_unlock(&d);
	for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
	kit_progress();
}

int main(void)
{
	static struct stalloc_bias slots[4][STALLOC_BIAS_SLOTS];
	kit_watchdog(30);
	for (int with = 0; with < 4; with++) { /* spins: as on one processor, and on more */
		d = (struct stalloc_device){0};
		stalloc_lock_prepare(&d.lock, with & 1 ? slots[with] : NULL);
		d.lock.spins = with & 2 ? STALLOC_SPINS : 0;
		counter = wanted = 0;
		exclusion();
		all_wake();
		comes_back(1);
		comes_back(2 * STALLOC_BIAS_STREAK);
		comes_back(2 * STALLOC_BIAS_STREAK); /* another thread's bias */
	}
	printf("lock: one at a time, %s\n",
	       slots[1][0].thread ? "biased and not" : "never biased: no membarrier here");
	return 0;
}
