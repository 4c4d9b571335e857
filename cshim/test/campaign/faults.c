/* What befalls a process: driver calls that fail, once or until they are mended, signals
 * whose handlers take their time wherever a thread is, threads of the lowest priority, and
 * others that take the processors away. Signal stacks are as small as crash reporters make
 * them. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../cuda/driver.h"
#include "run.h"

enum { HOGS = 2, STACK = 16 << 10 };

static const char *const functions[] = {
#define NAME(field, symbol, parameters) #field,
	STALLOC_DRIVER_CALLS(NAME)
#undef NAME
	"*"};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static _Atomic bool mended;
static pthread_t pest, failing, hogs[HOGS];
static struct worker *victims;
static int victim_count;
static _Atomic uint64_t signals, failures;

static void *fail(void *seed)
{
	static const int codes[] = {2, 2, 999, 1, 700, 201};
	uint64_t random = (uintptr_t)seed;
	while (!atomic_load(&mended)) {
		char rules[200], nth[24] = "*";
		const char *f = functions[kit_below(&random, FUNCTIONS)],
			   *g = functions[kit_below(&random, FUNCTIONS)];
		bool lasting = kit_below(&random, 6) == 0 &&
			       strcmp(f, "cuCtxPopCurrent") != 0; /* the stack is not endless */
		if (!lasting) snprintf(nth, sizeof nth, "%d", 1 + (int)kit_below(&random, 40));
		snprintf(rules, sizeof rules, "%s:%s:%d,%s:%d:%d", f, nth,
			 codes[kit_below(&random, 6)], g, 1 + (int)kit_below(&random, 40),
			 codes[kit_below(&random, 6)]);
		CHECK(fake(fail)(rules) == 0, "%s", rules);
		atomic_fetch_add(&failures, 1);
		kit_sleep_ms(lasting ? 1u << kit_below(&random, 8)
				     : (unsigned)kit_below(&random, 20));
		if (lasting) fake(fail)("");
	}
	fake(fail)("");
	return NULL;
}

void mishaps_start(void)
{
	if (life.mishaps) failing = kit_thread(fail, (void *)(uintptr_t)(life.seed + 7));
}

void mishaps_end(struct worker *w)
{
	if (!life.mishaps) return;
	atomic_store(&mended, true);
	pthread_join(failing, NULL);
	w->did.mishaps += atomic_load(&failures);
}

/* Any long stop: up to 16 ms, mostly short. */
static void stall(int signal)
{
	(void)signal;
	uint64_t r = atomic_fetch_add(&signals, 1);
	struct timespec t = {.tv_nsec = 1000000L << kit_below(&r, 5)};
	nanosleep(&t, NULL);
}

static void *pester(void *seed)
{
	uint64_t random = (uintptr_t)seed;
	while (!atomic_load(&over)) {
		pthread_kill(victims[kit_below(&random, (uint64_t)victim_count)].thread, SIGUSR1);
		kit_sleep_ms(1 + (unsigned)kit_below(&random, 4));
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

void rough_start(struct worker *workers, int n)
{
	struct sigaction action = {.sa_handler = stall, .sa_flags = SA_ONSTACK | SA_RESTART};
	if (!life.rough) return;
	victims = workers;
	victim_count = n;
	sigaction(SIGUSR1, &action, NULL);
	pest = kit_thread(pester, (void *)(uintptr_t)(life.seed + 9));
	for (int i = 0; i < HOGS; i++) hogs[i] = kit_thread(hog, NULL);
}

/* One thread runs only where nobody else wants to, another seldom. */
void rough_thread(struct worker *w)
{
	struct sched_param none = {0};
	stack_t s = {.ss_size = STACK, .ss_sp = malloc(STACK)};
	if (!life.rough) {
		free(s.ss_sp);
		return;
	}
	CHECK(s.ss_sp && sigaltstack(&s, NULL) == 0, "no signal stack");
	if (w->id == life.threads)
		CHECK(sched_setscheduler(0, SCHED_IDLE, &none) == 0, "no low priority");
	if (w->id == life.threads - 1)
		CHECK(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10) == 0,
		      "no low priority");
}

void rough_thread_ends(void)
{
	stack_t s = {.ss_flags = SS_DISABLE}, old;
	if (life.rough && sigaltstack(&s, &old) == 0) free(old.ss_sp);
}

void rough_end(struct worker *w)
{
	if (!life.rough) return;
	pthread_join(pest, NULL);
	for (int i = 0; i < HOGS; i++) pthread_join(hogs[i], NULL);
	w->did.signals += atomic_load(&signals);
}
