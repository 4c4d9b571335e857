/* A night: a life of one thread that knows at each moment what sleeps, what each block holds and
 * how much of a device may be in use. Driver calls fail inside of pause and resume, work in streams
 * waits until it is told to pass, and handle values come again. */
#ifndef STALLOC_TEST_NIGHT_H
#define STALLOC_TEST_NIGHT_H

#include <stdio.h>

#include "run.h"

enum { REGIONS = 4, STAYS = 48, LANES = 6, LASTING = 3 /* of the lanes lend memory */ };

/* A block, and what is known of it. */
struct stay {
	struct piece p; /* its stream is the lane's */
	int region;	/* 0: none */
	int lane;	/* -1: its stream is gone */
	int used_on;	/* the lane behind the one that uses it, too; 0: none */
	bool plain;	/* of a device that was closed before */
	bool shared;	/* exported: it never sleeps */
	bool lost;	/* slept without a backup */
};

struct night {
	struct worker *w;
	struct stay stays[STAYS];
	void *lanes[DEVICES][LANES]; /* streams; the first is the default stream */
	bool asleep[DEVICES][REGIONS], lent[DEVICES][REGIONS], closed[DEVICES];
	bool own[DEVICES][REGIONS][LANES]; /* the lane had blocks there */
	bool written[DEVICES][REGIONS];	   /* since it lent its memory last */
	bool fails; /* a driver call in this request or free */
	bool exports, streams, shots, reels, tells; /* what it does beside */
};
extern struct night night;

static inline uint64_t below(uint64_t n)
{
	return kit_below(&night.w->random, n);
}
static inline bool chance(uint64_t n)
{
	return below(n) == 0;
}

/* With ATTACK_TELL=1 the night says what it does. */
#define TELL(...) (night.tells ? (void)(printf(__VA_ARGS__), puts("")) : (void)0)

/* model_blocks.c: blocks. Each access is work in a stream, or comes after all work has passed. */
void stays_open(void);
size_t stay_size(void);	       /* of a request */
void stay_get(struct stay *s); /* somewhere, if it is served */
void stay_get_in(struct stay *s, int device, int region, int lane);
void stay_give(struct stay *s);
void stay_use(struct stay *s); /* on another lane */
bool stay_awake(const struct stay *s);
bool stays_in(int device, int region); /* whether there are any */
/* Work on a stream of the device reads the region's, after all that is there; with `ends` all
 * that comes later is after it. */
void stays_touch(int device, int region, void *stream, bool ends);
enum answer { IS_AWAKE, IS_ASLEEP, IS_FULL };
enum answer answer_of(void *at, int device, int region); /* what a request of it was told */
void stays_look(void); /* at all that are awake, when all work has passed */
void pass_some(void);
void lane_renew(void);
void lanes_close(void);
void work_write(const struct piece *p, int lane); /* its pattern, as work in a lane */
void work_read(const struct piece *p, int lane);
int region_begin(int region);
void region_end(int region);
const char *tag_of(int region);

/* model_sleep.c: pause and resume, and what they have done, whatever fails. */
struct dream {
	int device;    /* -1: all */
	unsigned mask; /* of the regions that are named, 0: all are meant */
	bool pauses, fails;
	char rule[64]; /* what fails, if that is not left to chance */
	int result;
	char why[4096];
};
void dream_play(struct dream *x, bool keep);
void dream_begin(void);
void dream_end(void);
/* Whether a region sleeps, as was seen: it has to be as is known, if it has blocks. */
void dream_is(int device, int region, bool asleep, const char *when);

/* model_resume.c: all is awake, and nothing is kept on the host. */
void dreams_close(void);

/* model_sweep.c: each call of a pause and of a resume fails in turn, while a part sleeps already. */
void sweep(void);

/* model_lends.c: regions that lend their memory. */
bool call_fails(void); /* now and then, a driver call from here on does */
void loan_begin(void);
void loan_end(void);
bool loans_any(void);
void loans_close(void);

/* model_tokens.c: one names the same memory for ever. */
void token_take(void);
void tokens_close(void);

/* model_limits.c: no device holds more than its limit, or than it held when that was set. */
void quota_set(int device, double fraction);
void quotas_check(void);

/* model_single.c: streams that make one request each. */
void once_play(void);
void once_close(void);

/* model_shots.c: captures while other streams allocate to the same private pool. */
void shots_play(void);

/* model_graphs.c: graphs that live on, and write what their captures had. */
void reels_play(void);
void reels_close(int device); /* -1: all */

#endif
