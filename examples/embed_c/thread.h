/* One thread of the program: it follows the recording on its own stream and fills
 * and checks its blocks. */
#ifndef EMBED_THREAD_H
#define EMBED_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include "recording.h"

enum { DEVICE = 0 };

extern struct recording recording;
extern pthread_barrier_t boundary; /* where the threads meet */
extern unsigned pause_ms;
extern int repeats; /* of the last step, behind the recording */

struct block {
	void *ptr;
	uint64_t size, tag;
	int lent, filled;
};

struct thread {
	pthread_t id;
	uint64_t number, scale;
	void *stream, *neighbour;
	struct block *blocks;	   /* by the recording's number */
	uint64_t *want, *got;	   /* room for a piece of a block */
	int looks;		   /* blocks are filled and checked */
	uint64_t checked;	   /* bytes */
	double spent;		   /* seconds in the allocator */
};

/* Makes the thread's tables. */
void thread_prepare(struct thread *t);
/* The thread's work, for pthread_create. */
void *thread_follow(void *thread);

/* Seconds, monotonic. */
double now(void);

#endif
