/* Rough: the threads of a training process under everything that a machine does to
 * them, meant to be run with GOGC=5.
 *
 * Players play programs, one alone on its stream, the others meeting there. Freers of the lowest priority free what they hand over, one by one and a
 * whole step's worth at once. Talkers ask for statistics and explanations. A visitor
 * comes as a new thread every time. Hogs take processors away. A pest sends signals
 * whose handler sleeps, wherever the thread is: with a stream's lock taken, in Go, in
 * the driver. Every thread has a signal stack as small as crash reporters make them.
 * Every byte is checked; the watchdog tells a hang; at the end nothing may be live.
 * STALLOC_TEST_SECONDS says how long (20). */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "work.h"

enum { PLAYERS = 4, FREERS = 3, TALKERS = 2, HOGS = 2, SHORT = 40, HEAP = 200, BEHIND = 2000, STACK = 16 << 10 };

static struct player players[PLAYERS];
static _Atomic bool over, played; /* played: nobody hands anything over any more */
static _Atomic uint64_t visits, signals, answers, marks;
static uint64_t seed;

/* The first player has a stream of its own, so that plans are hit; nearly. */
static void *stream_of(int player) { return (void *)(uintptr_t)(0x1000 * ((player + 1) / 2)); }

static void *any_stream(uint64_t *random)
{
	return stream_of(kit_below(random, 50) == 0 ? 0 : 1 + (int)kit_below(random, PLAYERS - 1));
}

/* Every thread's first call. The stack goes with the thread. */
static void small_stack(void)
{
	static __thread char *stack;
	stack_t s = {.ss_size = STACK};
	s.ss_sp = stack = malloc(STACK);
	CHECK(stack && sigaltstack(&s, NULL) == 0, "no signal stack");
}

static void drop_stack(void)
{
	stack_t s = {.ss_flags = SS_DISABLE}, old;
	if (sigaltstack(&s, &old) == 0) free(old.ss_sp);
}

/* What is handed over: a stack without a lock, for a freer that is stopped while it
 * has one would stop the players, too. */
struct handed {
	struct block block;
	struct handed *next;
};
static struct freer {
	pthread_t thread;
	_Atomic(struct handed *) top;
} freers[FREERS];
static _Atomic int waiting;

static void hand(struct freer *f, struct block b)
{
	struct handed *h = malloc(sizeof *h);
	CHECK(h, "no memory");
	h->block = b;
	h->next = atomic_load(&f->top);
	atomic_fetch_add(&waiting, 1);
	while (!atomic_compare_exchange_weak(&f->top, &h->next, h)) {
	}
}

/* The first freer runs only where nobody else wants to, the others seldom. */
static void *reap(void *argument)
{
	struct freer *f = argument;
	struct sched_param none = {0};
	bool least = f == freers;
	small_stack();
	CHECK(sched_setscheduler(0, least ? SCHED_IDLE : SCHED_BATCH, &none) == 0, "no low priority");
	CHECK(least || setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10) == 0, "no low priority");
	for (bool last = false; !last;) {
		last = atomic_load(&played);
		for (struct handed *h = atomic_exchange(&f->top, NULL), *next; h; h = next) {
			next = h->next;
			block_free(&h->block);
			free(h);
			atomic_fetch_sub(&waiting, 1);
		}
		sched_yield();
	}
	drop_stack();
	return NULL;
}

/* Any long stop. Up to 16 ms, mostly short. */
static void stall(int signal)
{
	(void)signal;
	uint64_t r = atomic_fetch_add(&signals, 1);
	struct timespec t = {.tv_nsec = 1000000L << kit_below(&r, 5)};
	nanosleep(&t, NULL);
}

/* A heap of blocks that other threads free all at once, while the player goes on
 * with requests that no plan knows: where a plan is served it is given up then. */
static void hand_over(struct player *p, uint64_t *random, bool calm)
{
	static _Atomic uint64_t sequence;
	struct block b[HEAP], other[16];
	for (int i = 0; i < HEAP; i++) {
		b[i] = (struct block){.size = 512 * (1 + (size_t)i % 7), .stream = p->stream};
		b[i].tag = (uint64_t)99 << 40 | atomic_fetch_add(&sequence, 1);
		b[i].at = stalloc_malloc(b[i].size, 0, p->stream);
		CHECK(b[i].at, "%s", stalloc_last_error());
		kit_fill(b[i].at, b[i].size, b[i].tag);
	}
	bool mine = atomic_load(&waiting) > BEHIND;
	for (int i = 0; i < HEAP; i++) {
		if (mine)
			block_free(&b[i]);
		else
			hand(&freers[i % FREERS], b[i]);
	}
	bool odd = !calm && kit_below(random, 2) == 0;
	for (int i = 0; odd && i < 16; i++) {
		other[i] = (struct block){.size = (1 << 20) + 512 * kit_below(random, 4096), .stream = p->stream};
		other[i].tag = (uint64_t)98 << 40 | atomic_fetch_add(&sequence, 1);
		other[i].at = stalloc_malloc(other[i].size, 0, p->stream);
		CHECK(other[i].at, "%s", stalloc_last_error());
		kit_fill(other[i].at, other[i].size, other[i].tag);
	}
	for (int i = 0; odd && i < 16; i++) block_free(&other[i]);
}

/* The first player marks the steps, at the ends of its own; now and then anybody. */
static void *play(void *argument)
{
	struct player *p = argument;
	struct program program = {0};
	int me = (int)(p - players);
	uint64_t random = p->random;
	small_stack();
	p->program = &program;
	for (uint64_t step = 0; !atomic_load(&over); step++) {
		if (step % 25 == 0) {
			program_drop(&program);
			program = program_make(seed + step * PLAYERS + (uint64_t)me, SHORT, (size_t)3 << 20);
		}
		bool calm = step % 25 < 15;
		p->habits = calm ? (struct habits){0} : (struct habits){.noise = 20, .shared = 10};
		player_first_half(p);
		player_second_half(p);
		if (me == 0) hand_over(p, &random, calm);
		if (me == 0 || kit_below(&random, 200) == 0) {
			CHECK(stalloc_step(-1) == STALLOC_OK, "%s", stalloc_last_error());
			atomic_fetch_add(&marks, 1);
		}
	}
	player_end(p);
	program_drop(&program);
	drop_stack();
	return NULL;
}

static void *talk(void *argument)
{
	uint64_t random = (uintptr_t)argument;
	char text[8000];
	small_stack();
	while (!atomic_load(&over)) {
		void *p = stalloc_malloc(1 + kit_below(&random, 4 << 20), 0, any_stream(&random));
		uint64_t what = kit_below(&random, 1000);
		if (what < 300) CHECK(stalloc_explain(0, text, sizeof text) > 0, "no explanation");
		if (what < 100) kit_stats();
		if (what >= 300 && what < 302) stalloc_empty_cache();
		if (what >= 310 && what < 320) stalloc_reset_peak(0);
		if (what >= 320 && what < 350) stalloc_record_stream(p, any_stream(&random));
		stalloc_free(p, 0, 0, (void *)0x1000); /* a stream that need not be its own */
		atomic_fetch_add(&answers, 1);
		kit_progress();
	}
	drop_stack();
	return NULL;
}

static void *visit(void *argument)
{
	uint64_t random = (uintptr_t)argument;
	void *stream = any_stream(&random);
	small_stack();
	for (uint64_t n = 1 + kit_below(&random, 400), i = 0; i < n; i++) {
		struct block b = {.size = 1 + kit_below(&random, 20000), .stream = stream, .tag = (uint64_t)97 << 40 | i};
		b.at = stalloc_malloc(b.size, 0, stream);
		CHECK(b.at, "%s", stalloc_last_error());
		kit_fill(b.at, b.size, b.tag);
		block_free(&b);
	}
	drop_stack();
	return NULL;
}

static void *visitors(void *unused)
{
	(void)unused;
	for (uint64_t n = 1; !atomic_load(&over); n++) {
		pthread_t one;
		CHECK(pthread_create(&one, NULL, visit, (void *)(uintptr_t)(seed + n)) == 0, "no thread");
		pthread_join(one, NULL);
		atomic_fetch_add(&visits, 1);
	}
	return NULL;
}

/* Never all of a processor: those of the lowest priority need some, too. */
static void *hog(void *unused)
{
	(void)unused;
	while (!atomic_load(&over)) {
		for (volatile uint32_t i = 0; i < 3000000; i++) {
		}
		kit_sleep_ms(2);
	}
	return NULL;
}

static void pester(pthread_t *threads, int n, double seconds)
{
	uint64_t random = seed;
	for (double until = kit_seconds() + seconds; kit_seconds() < until;) {
		pthread_kill(threads[kit_below(&random, (uint64_t)n)], SIGUSR1);
		kit_sleep_ms(1 + (unsigned)kit_below(&random, 4));
	}
}

int main(void)
{
	double seconds = (double)kit_number("STALLOC_TEST_SECONDS", 20);
	struct sigaction action = {.sa_handler = stall, .sa_flags = SA_ONSTACK | SA_RESTART};
	pthread_t threads[PLAYERS + TALKERS + FREERS], others[1 + HOGS];
	int n = 0;
	setenv("STALLOC_TEST_LARGEST", "65536", 0);
	seed = kit_seed();
	kit_watchdog((unsigned)kit_number("STALLOC_TEST_HANG", 40));
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < PLAYERS; i++) {
		players[i] = (struct player){.stream = stream_of(i), .other = stream_of((i + 2) % PLAYERS),
					     .random = seed + (uint64_t)i, .id = (uint64_t)i + 1};
		CHECK(pthread_create(&threads[n++], NULL, play, &players[i]) == 0, "no thread");
	}
	for (int i = 0; i < TALKERS; i++)
		CHECK(pthread_create(&threads[n++], NULL, talk, (void *)(uintptr_t)(seed + 77 + (uint64_t)i)) == 0, "no thread");
	CHECK(pthread_create(&others[0], NULL, visitors, NULL) == 0, "no thread");
	for (int i = 0; i < HOGS; i++) CHECK(pthread_create(&others[1 + i], NULL, hog, NULL) == 0, "no thread");
	int joined = n;
	for (int i = 0; i < FREERS; i++, n++) {
		CHECK(pthread_create(&threads[n], NULL, reap, &freers[i]) == 0, "no thread");
		freers[i].thread = threads[n];
	}
	pester(threads, n, seconds);
	atomic_store(&over, true);
	for (int i = 0; i < joined; i++) pthread_join(threads[i], NULL);
	for (int i = 0; i <= HOGS; i++) pthread_join(others[i], NULL);
	atomic_store(&played, true);
	for (int i = 0; i < FREERS; i++) pthread_join(freers[i].thread, NULL);
	for (int i = 0; i < PLAYERS; i++)
		CHECK(players[i].failed == 0, "player %d: %llu requests were refused", i, (unsigned long long)players[i].failed);
	CHECK(stalloc_step(-1) == STALLOC_OK, "%s", stalloc_last_error());
	struct stalloc_stats s = kit_stats();
	printf("%llu requests, %.1f %% hits, %llu steps, %llu plans, %llu signals, %llu answers, %llu visitors\n",
	       (unsigned long long)s.requests, 100 * (double)s.hits / (double)s.requests, (unsigned long long)s.steps,
	       (unsigned long long)s.plan_generation, (unsigned long long)signals, (unsigned long long)answers,
	       (unsigned long long)visits);
	CHECK(s.allocated == 0 && s.blocks == 0, "at the end %llu bytes in %llu blocks", (unsigned long long)s.allocated,
	      (unsigned long long)s.blocks);
	return 0;
}
