/* What the parts of the random campaign share: see campaign.c. */
#ifndef STALLOC_TEST_RUN_H
#define STALLOC_TEST_RUN_H

#include <pthread.h>
#include <stdatomic.h>

#include "../kit.h"

enum { DEVICES = 3, THREADS = 12, SLOTS = 10, SHARED = 400 };

/* The configuration of a run, which its seed determines. */
struct run {
	uint64_t seed;
	int devices, threads;
	size_t capacity;  /* of a device */
	size_t largest;   /* request, nearly always */
	bool noisy;       /* anyone marks steps, and blocks change hands a lot */
	bool no_oom;      /* nothing may be refused */
	bool no_fallback; /* the engine serves all along */
	bool engine;      /* there is one */
	bool open_pools;  /* some take requests on any stream */
	bool closes, forks, limits, faults, perturbed, wrong_frees, ends_closed;
	bool modelled;    /* one thread, and a model of what sleeps: model.h */
	double seconds;
};
extern struct run run;
struct run run_of(uint64_t seed, bool in_environment);
void run_play(double most_seconds);

/* What was done, summed over all runs. */
#define TALLY(X)                                                                               \
	X(requests)                                                                            \
	X(refused) X(hits) X(steps) X(plans) X(plain) X(streams) X(pools) X(captures) X(files) \
		X(forks) X(faults) X(looks) X(signals) X(pauses) X(lends) X(exports) X(modelled)
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
extern _Atomic bool over; /* the run's threads end */

/* A block that is tracked: its bytes are claimed, and hold a pattern. */
struct tracked {
	void *at, *stream;
	size_t size;
	uint64_t tag;
	int device, used_on; /* 1 + the slot whose stream uses it; 0: none */
};

/* tracked.c. malloc: false if it was refused. */
void tracked_open(void);
void tracked_claim(const struct tracked *p, bool in);
/* Writes a few words of the pattern, or returns the offset of the first wrong one, or -1. */
long tracked_words(const struct tracked *p, bool write);
bool tracked_malloc(struct worker *w, struct tracked *p, size_t size, int device, void *stream);
/* Has the stream of some slot use it until it is freed. */
void tracked_record_stream(struct worker *w, struct tracked *p);
void tracked_check(const struct tracked *p);
void tracked_free(struct worker *w, struct tracked *p);
/* Frees a block whose bytes nobody else may have before tracked_unclaim. */
void tracked_free_claimed(struct worker *w, struct tracked *p);
void tracked_unclaim(const struct tracked *p);
void tracked_free_asleep(struct worker *w, struct tracked *p); /* without a look at it */
void tracked_resumed(const struct tracked *p, bool kept);      /* kept: with its contents */
size_t random_size(struct worker *w);

/* streams.c: slots, each with a stream of the driver's that is destroyed and created again. */
void slots_open(struct worker *w);
/* The slot asked for, or (0, or it is empty) any: nobody destroys its stream meanwhile. */
int slot_acquire(struct worker *w, int device, int wanted);
void *slot_stream(int slot);
void slot_release(int slot);
void slot_recreate(struct worker *w);
void slots_close(void);
void *stream_create(struct worker *w, int device); /* in no slot; NULL: none can be made */
void short_stream_play(struct worker *w);	   /* creates, uses and destroys one */

/* graphs.c: private pools and captures. */
void graph_pool(struct worker *w);
void graph_capture(struct worker *w);
void graphs_close(void);

/* steps.c: steps as a training run makes them. */
void steps_play(struct worker *w);

/* shared.c: blocks that any thread checks and frees. */
void shared_play(struct worker *w);
void shared_put(struct worker *w, struct tracked *p);
void shared_free_asleep(struct worker *w); /* some of them */
void shared_resumed(bool kept);		   /* kept: with their contents */
uint64_t shared_live(int device, uint64_t *bytes, uint64_t *requested);
void shared_clear(struct worker *w);

/* regions.c: regions that sleep or lend their memory, and blocks that are exported. */
void region_play(struct worker *w);
void pause_all(struct worker *w); /* no other thread does anything */
uint64_t regions_live(int device, uint64_t *bytes, uint64_t *requested);
void regions_clear(struct worker *w);

/* calls.c: all other calls of the interface. */
void other_call(struct worker *w);
void load_earlier_plan(struct worker *w); /* before the first request */
const char *scratch_path(char *path, size_t n, int device, uint64_t number);

/* faults.c: fault injection; signals, and threads that take the processors away. */
void faults_start(void);
void faults_end(struct worker *w);
void perturb_start(struct worker *workers, int n);
void perturb_thread(struct worker *w); /* its first call */
void perturb_thread_ends(void);
void perturb_end(struct worker *w);

/* model.c: a run of one thread that is checked against a model. */
void modelled_play(struct worker *w, double seconds);

/* leaks.c: what is left after the run. */
void leak_check(struct worker *workers, struct worker *w);

#endif
