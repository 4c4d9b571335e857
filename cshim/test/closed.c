/* Threads that allocate while their device is closed. What lives then stays as it is and is
 * freed as ever, what is asked for later is served, and in the end the driver has
 * everything back. Each round closes another device: there is no way back. FAKECUDA_DEVICES: one
 * more. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

enum { ROUNDS = 4, THREADS = 4, LIVE = 16, SIZES = 5 };
static const size_t sizes[SIZES] = {512, 5000, 60000, 1 << 20, (2 << 20) + 512};

static _Atomic bool over;
static _Atomic uint64_t served;

struct worker {
	pthread_t thread;
	int device;
	void *stream;
	uint64_t random, id, sequence;
	struct block live[LIVE];
};

static struct block request(struct worker *w)
{
	size_t size = sizes[kit_below(&w->random, SIZES)];
	if (size > kit_number("STALLOC_TEST_LARGEST", 20 << 20)) size = 512;
	struct block b = block_get(size, w->device, w->stream, w->id << 40 | ++w->sequence);
	atomic_fetch_add(&served, 1);
	return b;
}

static void release(struct worker *w, struct block *b)
{
	long bad = kit_damage(b->at, b->size, b->tag);
	CHECK(bad < 0, "a block of %zu bytes on device %d was overwritten at byte %ld", b->size,
	      w->device, bad);
	if (kit_below(&w->random, 50) == 0)
		stalloc_record_stream(b->at, (char *)b->stream + 0x1000);
	stalloc_free(b->at, b->size, w->device, b->stream);
	*b = (struct block){0};
}

/* What the threads leave alive, main frees. */
static void *work(void *argument)
{
	struct worker *w = argument;
	while (!atomic_load(&over)) {
		for (int i = 0; i < LIVE; i++)
			w->live[i].at ? release(w, &w->live[i]) : (void)0, w->live[i] = request(w);
		stalloc_step(w->device);
	}
	return NULL;
}

static void wait_for(uint64_t more)
{
	for (uint64_t from = atomic_load(&served); atomic_load(&served) < from + more;)
		kit_sleep_ms(1);
}

static void *close_too(void *device)
{
	OK(stalloc_close(*(int *)device));
	return NULL;
}

static void round_on(int device, uint64_t *random)
{
	static struct worker workers[THREADS];
	atomic_store(&over, false);
	for (int i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.device = device,
					     .stream = (void *)(uintptr_t)(0x1000 * (i / 2)),
					     .random = kit_random(random),
					     .id = (uint64_t)i + 1};
		workers[i].thread = kit_thread(work, &workers[i]);
	}
	wait_for(1 + kit_below(random, 3000));
	pthread_t other = kit_thread(close_too, &device);
	OK(stalloc_close(device));
	pthread_join(other, NULL);
	uint64_t steps = kit_stats_of(device).steps;
	wait_for(500);
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
	struct stalloc_stats s = kit_stats_of(device);
	CHECK(s.blocks == THREADS * LIVE && s.fallback >= 500 - THREADS * LIVE,
	      "%llu live blocks, %llu served plainly", (ull)s.blocks, (ull)s.fallback);
	CHECK(s.allocated <= s.reserved, "%llu bytes allocated, %llu reserved",
	      (ull)s.allocated, (ull)s.reserved);
	CHECK(s.steps <= steps + THREADS, "%llu steps, %llu when it was closed",
	      (ull)s.steps, (ull)steps);
	for (int i = 0; i < THREADS; i++)
		for (int b = 0; b < LIVE; b++) release(&workers[i], &workers[i].live[b]);
	s = kit_stats_of(device);
	CHECK(s.blocks == 0 && s.allocated == 0 && s.reserved == 0,
	      "at the end %llu bytes in %llu blocks, %llu reserved", (ull)s.allocated,
	      (ull)s.blocks, (ull)s.reserved);
	CHECK(fake(live)("handles") == 0 && fake(live)("blocks") == 0,
	      "the driver has not got everything back");
}

int main(void)
{
	uint64_t random = kit_seed();
	kit_watchdog(30);
	kit_stderr_begin();
	for (int i = 0; i < ROUNDS; i++) round_on(i, &random);
	int lines = kit_stderr_end("(it was closed)");
	CHECK(lines == ROUNDS, "%d lines say that a closed device serves on, of %d", lines, ROUNDS);
	CHECK(stalloc_close(-1) == STALLOC_OK && stalloc_close(-1) == STALLOC_OK, "%s",
	      stalloc_last_error());
	CHECK(stalloc_close(-2) == STALLOC_ERR_ARGUMENT &&
		      stalloc_close(64) == STALLOC_ERR_ARGUMENT,
	      "there is no such device");
	void *late = stalloc_malloc(512, ROUNDS,
				    NULL); /* a device that was closed before its first request */
	CHECK(late && kit_stats_of(ROUNDS).fallback == 1, "%s", stalloc_last_error());
	stalloc_free(late, 512, ROUNDS, NULL);
	printf("closed: %d devices, %llu requests\n", ROUNDS, (ull)atomic_load(&served));
	return 0;
}
