/* A thread that stops at an instruction of its choice, for as long as one wants.
 *
 * Between any two instructions of a free a thread may lose its processor for
 * seconds: to a profiler's signal, to a page fault, to others when it has a low
 * priority. Such stops are rare where it hurts most, so here they are made: the
 * thread frees a block one instruction at a time (the processor's trap flag) and
 * waits in the handler of the n-th trap until it is told to go on. */
#ifndef STALLOC_TEST_STEPPER_H
#define STALLOC_TEST_STEPPER_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "work.h"

enum state { IDLE, BUSY, STOPPED };

struct stepper {
	pthread_t thread;
	sem_t work;
	struct block block;
	uint32_t at;		/* the trap to stop at; 0: the thread ends */
	uint32_t traps;		/* taken in this call */
	_Atomic uint32_t state; /* enum where */
	_Atomic bool go;
};

/* Before the first thread is started. */
void stepper_prepare(void);
void stepper_start(struct stepper *s);
/* Frees a block up to the instruction `at`. Returns when the thread has stopped
 * there or is through: true if it has stopped. */
bool stepper_free(struct stepper *s, struct block b, uint32_t at);
/* Lets it go on; stopper_wait returns once the call has ended. */
void stepper_release(struct stepper *s);
void stepper_wait(struct stepper *s);
void stepper_end(struct stepper *s);

#endif
