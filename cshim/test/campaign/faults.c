/* Fault injection: driver calls fail, once or for a while. And perturbed scheduling: signals
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

static _Atomic bool faults_over;
static pthread_t signaller, injector, hogs[HOGS];
static struct worker *targets;
static int target_count;
static _Atomic uint64_t signals, failures;

static void *inject(void *seed)
{
	static const int codes[] = {2, 2, 999, 1, 700, 201};
	uint64_t random = (uintptr_t)seed;
	while (!atomic_load(&faults_over)) {
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

void faults_start(void)
{
	if (run.faults) injector = kit_thread(inject, (void *)(uintptr_t)(run.seed + 7));
}

void faults_end(struct worker *w)
{
	if (!run.faults) return;
	atomic_store(&faults_over, true);
	pthread_join(injector, NULL);
	w->did.faults += atomic_load(&failures);
}

/* A stall of a thread: up to 16 ms, mostly short. */
static void stall(int signal)
{
	(void)signal;
	uint64_t r = atomic_fetch_add(&signals, 1);
	struct timespec t = {.tv_nsec = 1000000L << kit_below(&r, 5)};
	nanosleep(&t, NULL);
}

static void *send_signals(void *seed)
{
	uint64_t random = (uintptr_t)seed;
	while (!atomic_load(&over)) {
		pthread_kill(targets[kit_below(&random, (uint64_t)target_count)].thread, SIGUSR1);
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

void perturb_start(struct worker *workers, int n)
{
	struct sigaction action = {.sa_handler = stall, .sa_flags = SA_ONSTACK | SA_RESTART};
	if (!run.perturbed) return;
	targets = workers;
	target_count = n;
	sigaction(SIGUSR1, &action, NULL);
	signaller = kit_thread(send_signals, (void *)(uintptr_t)(run.seed + 9));
	for (int i = 0; i < HOGS; i++) hogs[i] = kit_thread(hog, NULL);
}

/* One thread runs only where nobody else wants to, another seldom. */
void perturb_thread(struct worker *w)
{
	struct sched_param none = {0};
	stack_t s = {.ss_size = STACK, .ss_sp = malloc(STACK)};
	if (!run.perturbed) {
		free(s.ss_sp);
		return;
	}
	CHECK(s.ss_sp && sigaltstack(&s, NULL) == 0, "no signal stack");
	if (w->id == run.threads)
		CHECK(sched_setscheduler(0, SCHED_IDLE, &none) == 0, "no low priority");
	if (w->id == run.threads - 1)
		CHECK(setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10) == 0,
		      "no low priority");
}

void perturb_thread_ends(void)
{
	stack_t s = {.ss_flags = SS_DISABLE}, old;
	if (run.perturbed && sigaltstack(&s, &old) == 0) free(old.ss_sp);
}

void perturb_end(struct worker *w)
{
	if (!run.perturbed) return;
	pthread_join(signaller, NULL);
	for (int i = 0; i < HOGS; i++) pthread_join(hogs[i], NULL);
	w->did.signals += atomic_load(&signals);
}
