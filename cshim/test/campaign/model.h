/* A modelled run: one thread, which knows at each moment what sleeps, what each block holds and
 * how much of a device may be in use. Driver calls fail inside of pause and resume, work in streams
 * is held back until the run lets it pass, and handle values are used again. */
#ifndef STALLOC_TEST_MODEL_H
#define STALLOC_TEST_MODEL_H

#include <stdio.h>

#include "run.h"

enum { REGIONS = 4, BLOCKS = 48, STREAMS = 6, PERSISTENT = 3 /* of the streams lend memory */ };

/* A block, and what is known of it. */
struct block {
	struct tracked p;
	int region;    /* 0: none */
	int stream_no; /* its stream's; -1: that is gone */
	int used_on;   /* 1 + the number of another stream that uses it; 0: none */
	bool plain;    /* of a device that was closed before */
	bool shared;   /* exported: it never sleeps */
	bool lost;     /* slept without a backup */
};

struct model {
	struct worker *w;
	struct block blocks[BLOCKS];
	void *streams[DEVICES][STREAMS]; /* by number; the first is the default stream */
	bool asleep[DEVICES][REGIONS], lent[DEVICES][REGIONS], closed[DEVICES];
	bool own[DEVICES][REGIONS][STREAMS]; /* the stream had blocks there */
	bool written[DEVICES][REGIONS];	     /* since it lent its memory last */
	bool fails;			     /* a driver call in this request or free */
	bool exports, single, captures, graphs, logs; /* what else the run does */
};
extern struct model model;

static inline uint64_t below(uint64_t n)
{
	return kit_below(&model.w->random, n);
}
static inline bool chance(uint64_t n)
{
	return below(n) == 0;
}

/* With CAMPAIGN_LOG=1 the run logs what it does. */
#define LOG(...) (model.logs ? (void)(printf(__VA_ARGS__), puts("")) : (void)0)

/* model_blocks.c: blocks. Each access is work in a stream, or comes after all work has passed. */
size_t request_size(void);
void model_malloc(struct block *b); /* in any region, on any stream, if it is served */
void model_malloc_in(struct block *b, int device, int region, int n);
void model_free(struct block *b);
void model_free_awake(void); /* all that are awake, and gives the memory back */
void model_record_stream(struct block *b); /* another one uses it */
bool block_awake(const struct block *b);
bool region_has_blocks(int device, int region);
/* Work on a stream of the device reads the region's, after all that is there; with `ends` all
 * that comes later is after it. */
void region_read(int device, int region, void *stream, bool ends);
enum answer { IS_AWAKE, IS_ASLEEP, IS_FULL };
enum answer answer_of(void *at, int device, int region); /* what a request of it returned */
void model_check(void); /* all blocks that are awake, when all work has passed */
void work_write(const struct tracked *p, int n); /* its pattern, as work of stream n */
void work_read(const struct tracked *p, int n);
void regions_open(void);
int region_begin(int region);
void region_end(int region);
const char *tag_of(int region);

/* model_sleep.c: pause and resume, and what they have done, whatever fails. */
struct sleep_call {
	int device;    /* -1: all */
	unsigned mask; /* of the regions that are named; 0: all */
	bool pauses, fails;
	char rule[64]; /* what fails, if that is not left to chance */
	int result;
	char error[4096];
};
void sleep_call_play(struct sleep_call *x, bool keep);
void pause_random(void);
void resume_random(void);
/* Whether a region sleeps, as was observed: the model has to agree, if it has blocks. */
void region_is(int device, int region, bool asleep, const char *when);

/* model_sweep.c: each driver call of a pause and of a resume fails in turn, while a part sleeps
 * already. */
void fault_sweep(void);

/* model_lends.c: regions that lend their memory. */
bool inject_fault(void); /* at times a driver call from here on fails */
void lend_begin(void);
void lend_end(void);
void lends_close(void);

/* model_tokens.c: a token names the same memory for ever. */
void token_play(void);
void tokens_close(void);

/* model_streams.c */
void streams_open(void);
void pass_some(void); /* of their work */
void stream_replace(void);
void streams_close(void);
void single_play(void); /* streams that make one request each */

/* model_graphs.c: captures, and graphs that are replayed. */
void capture_play(void);
void graph_play(void);
void graphs_drop(int device); /* -1: all */

#endif
