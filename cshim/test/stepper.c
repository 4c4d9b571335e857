#include "stepper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

enum { TRAP_FLAG = 0x100, STACK = 64 << 10 };

static __thread struct stepper *me;

/* Only what a handler may do. The thread may be anywhere, in Go as well. */
static void trapped(int signal, siginfo_t *info, void *context)
{
	ucontext_t *at = context;
	struct timespec pause = {.tv_nsec = 50000};
	int before = errno;
	(void)signal;
	(void)info;
	if (++me->traps != me->at) return;
	at->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
	atomic_store(&me->state, STOPPED);
	while (!atomic_load(&me->go)) nanosleep(&pause, NULL);
	atomic_store(&me->state, BUSY);
	errno = before;
}

void stepper_prepare(void)
{
	struct sigaction action = {.sa_sigaction = trapped,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	sigemptyset(&action.sa_mask);
	CHECK(sigaction(SIGTRAP, &action, NULL) == 0, "no handler");
}

/* The stack below the pointer belongs to the compiled code (the red zone). */
static inline void step_by_step(bool on)
{
	if (on)
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea "
				 "128(%%rsp), %%rsp" ::
					 : "cc", "memory");
	else
		__asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; "
				 "lea 128(%%rsp), %%rsp" ::
					 : "cc", "memory");
}

static void *run(void *argument)
{
	stack_t stack = {.ss_sp = malloc(STACK), .ss_size = STACK};
	me = argument;
	CHECK(stack.ss_sp && sigaltstack(&stack, NULL) == 0, "no signal stack");
	for (;;) {
		sem_wait(&me->work);
		if (me->at == 0) break;
		struct block b = me->block;
		long bad = kit_damage(b.at, b.size, b.tag);
		CHECK(bad < 0, "the block at %p of %zu bytes was overwritten at byte %ld", b.at,
		      b.size, bad);
		me->traps = 0;
		step_by_step(true);
		stalloc_free(b.at, 0, 0, b.stream);
		step_by_step(false);
		atomic_store(&me->state, IDLE);
	}
	stack.ss_flags = SS_DISABLE;
	sigaltstack(&stack, NULL);
	free(stack.ss_sp);
	return NULL;
}

void stepper_start(struct stepper *s)
{
	memset(s, 0, sizeof *s);
	sem_init(&s->work, 0, 0);
	s->thread = kit_thread(run, s);
}

bool stepper_free(struct stepper *s, struct block b, uint32_t at)
{
	s->block = b;
	s->at = at;
	atomic_store(&s->go, false);
	atomic_store(&s->state, BUSY);
	sem_post(&s->work);
	while (atomic_load(&s->state) == BUSY && !atomic_load(&s->go)) sched_yield();
	return atomic_load(&s->state) == STOPPED;
}

void stepper_release(struct stepper *s) { atomic_store(&s->go, true); }

void stepper_wait(struct stepper *s)
{
	while (atomic_load(&s->state) != IDLE) sched_yield();
	kit_progress();
}

void stepper_end(struct stepper *s)
{
	s->at = 0;
	sem_post(&s->work);
	pthread_join(s->thread, NULL);
}
