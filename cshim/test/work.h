/* Steps that look like training: programs of requests and frees, played by
 * threads that write a pattern into every block and check it before the free. */
#ifndef STALLOC_TEST_WORK_H
#define STALLOC_TEST_WORK_H

#include <pthread.h>

#include "kit.h"

struct block {
	void *at;
	size_t size;
	uint64_t tag;
	void *stream;
};

/* A block with a pattern; the test ends if there is none. */
struct block block_get(size_t size, int device, void *stream, uint64_t tag);
void block_check(const struct block *b); /* its pattern */
/* Checks it, and frees it. */
void block_free(const struct block *b);

/* A step: op is a request of sizes[op] or, as ~slot, the free of one. After half
 * of the operations all of most_live is in use: if the streams meet there, the
 * load of all of them peaks at one time, as that of a training step does. */
struct program {
	int slots, ops, half;
	size_t *sizes;
	int *op;
};
/* At most 64 times the largest size is live. */
struct program program_make(uint64_t seed, int slots, size_t most_live);
void program_drop(struct program *p);

/* Threads that free what others allocated. */
struct reaper {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct block queue[256];
	unsigned head, tail; /* posted, freed */
	bool stop;
};
void reaper_start(struct reaper *r);
void reaper_post(struct reaper *r, struct block b, bool wait);
void reaper_stop(struct reaper *r);

/* Permille of the events at which something happens. */
struct rates {
	unsigned noise;  /* a request is left out or inserted, a free is late */
	unsigned cross;  /* another thread frees the block */
	unsigned shared; /* another stream uses the block */
	bool wait;       /* for the other thread: the order of frees stays the same */
};

/* One thread's part on one stream. */
struct player {
	struct program *program;
	struct rates rates;
	void *stream, *other;
	struct reaper *reapers;
	int reaper_count;
	uint64_t random, sequence; /* of this player: part of every tag */
	uint64_t id, failed;       /* requests refused */
	struct block *live;        /* by slot */
	int room;
	struct block late[64]; /* inserted or freed late */
	int late_count;
};
void player_first_half(struct player *p);
void player_second_half(struct player *p);
void player_end(struct player *p); /* frees what is late */

#endif
