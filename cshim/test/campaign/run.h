/* What the parts of the attack share: see attack.c. */
#ifndef STALLOC_TEST_LIFE_H
#define STALLOC_TEST_LIFE_H

#include <pthread.h>
#include <stdatomic.h>

#include "../kit.h"

enum { DEVICES = 3, THREADS = 12, STREAMS = 10, CELLS = 400 };

/* What a life is like: all of it follows from its seed. */
struct life {
	uint64_t seed;
	int devices, threads;
	size_t capacity;   /* of a device */
	size_t largest;    /* request, nearly always */
	bool noisy;        /* anyone marks steps, and blocks change hands a lot */
	bool roomy;        /* nothing may be refused */
	bool sound;        /* the engine serves all along */
	bool engine;       /* there is one */
	bool open_pools;   /* some take requests on any stream */
	bool closes, forks, limits, mishaps, rough, wrong, ends_closed;
	bool night;        /* one thread, and a model of what sleeps: model.h */
	double seconds;
};
extern struct life life;
struct life life_of(uint64_t seed, bool in_environment);
void life_play(double most_seconds);

/* What was done, summed over all lives. */
#define TALLY(X)                                                                               \
	X(requests)                                                                            \
	X(refused) X(hits) X(steps) X(plans) X(plain) X(streams) X(pools) X(captures) X(files) \
		X(forks) X(mishaps) X(looks) X(signals) X(naps) X(loans) X(exports) X(nights)
struct tally {
#define FIELD(name) uint64_t name;
	TALLY(FIELD)
#undef FIELD
};

struct worker {
	pthread_t thread;
	int id;
	uint64_t random, sequence;
	uint64_t served[DEVICES];
	struct tally did;
};
extern _Atomic bool over; /* the life's threads end */

struct piece {
	void *at, *stream;
	size_t size;
	uint64_t tag;
	int device, used_on; /* the road behind the one whose stream uses it, 0: none */
};

/* tracked.c. get: false if it was refused. */
void pieces_open(void);
void piece_claim(const struct piece *p, bool in);
long piece_few(const struct piece *p,
	       bool write); /* the first word that is wrong, or -1; or writes them */
bool piece_get(struct worker *w, struct piece *p, size_t size, int device, void *stream);
void piece_use(struct worker *w, struct piece *p); /* on some road until it is free */
void piece_check(const struct piece *p);
void piece_give(struct worker *w, struct piece *p);
/* Frees a piece whose bytes nobody else may have before piece_over. */
void piece_give_kept(struct worker *w, struct piece *p);
void piece_over(const struct piece *p);
void piece_dream(struct worker *w, struct piece *p); /* frees one that sleeps */
void piece_wake(const struct piece *p, bool kept); /* kept: its contents are there */
size_t some_size(struct worker *w);

/* streams.c: streams of the driver's, made and destroyed. */
void roads_open(struct worker *w);
/* The road asked for, or (0, or it is closed) any: nobody destroys its stream meanwhile. */
int road_enter(struct worker *w, int device, int wanted);
void *road_stream(int road);
void road_leave(int road);
void *road_new(struct worker *w, int device); /* a stream of one's own, NULL: none can be made */
void road_renew(struct worker *w);
void road_visit(struct worker *w); /* one that lives for a moment */
void roads_close(void);

/* graphs.c: private pools and captures. */
void graph_pool(struct worker *w);
void graph_capture(struct worker *w);
void graphs_close(void);

/* steps.c: steps as a training run makes them; shared.c: blocks of nobody in particular. */
void steps_play(struct worker *w);
void cells_play(struct worker *w);
void cell_leave(struct worker *w, struct piece *p); /* to whoever comes */
void cells_dream(struct worker *w); /* frees some, without a look at them */
void cells_wake(bool kept);	    /* with their contents */
uint64_t cells_live(int device, uint64_t *bytes, uint64_t *asked);
void cells_clear(struct worker *w);

/* regions.c: regions that sleep, and blocks that are exported. */
void nap(struct worker *w);
void all_nap(struct worker *w); /* no other thread does anything */
uint64_t naps_live(int device, uint64_t *bytes, uint64_t *asked);
void naps_clear(struct worker *w);

/* calls.c: everything else of the interface. */
void deed(struct worker *w);
void plan_before(struct worker *w); /* the first request */
const char *scratch_path(char *path, size_t n, int device, uint64_t number);

/* faults.c: failing driver calls; signals, and threads that take the processors away. */
void mishaps_start(void);
void mishaps_end(struct worker *w);
void rough_start(struct worker *workers, int n);
void rough_thread(struct worker *w); /* its first call */
void rough_thread_ends(void);
void rough_end(struct worker *w);

/* model.c */
void night_play(struct worker *w, double seconds);

/* leaks.c: what is left after the life. */
void balance(struct worker *workers, struct worker *w);

#endif
