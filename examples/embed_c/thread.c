#include "thread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu.h"
#include "stalloc.h"

enum {
	LEND = 97,	   /* requests between two blocks that are lent */
	LOOK = 50,	   /* repeated steps from one whose bytes are checked to the next */
	PIECE = 64 * 1024, /* words written or read at once */
};

struct recording recording;
pthread_barrier_t boundary;
unsigned pause_ms = 10;
int repeats = 200;

double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A different word at every place of every block, so that a page that shows up
 * twice, or in the wrong block, is found as surely as a byte overwritten. */
static void pattern(uint64_t *to, uint64_t tag, uint64_t at) {
	uint64_t word = tag ^ at * 0x9E3779B97F4A7C15u;
	for (int i = 0; i < PIECE; i++, word += 0x2545F4914F6CDD1Du) to[i] = word;
}

static uint64_t piece_of(const struct block *b, uint64_t at) {
	uint64_t left = b->size - at;
	return left < PIECE * sizeof(uint64_t) ? left : PIECE * sizeof(uint64_t);
}

static void fill(struct thread *t, const struct block *b) {
	for (uint64_t at = 0, n; at < b->size; at += n) {
		n = piece_of(b, at);
		pattern(t->want, b->tag, at);
		gpu_write((char *)b->ptr + at, t->want, n);
	}
}

static void check(struct thread *t, const struct block *b) {
	for (uint64_t at = 0, n; at < b->size; at += n) {
		n = piece_of(b, at);
		pattern(t->want, b->tag, at);
		gpu_read(t->got, (char *)b->ptr + at, n);
		if (!memcmp(t->want, t->got, n)) continue;
		const unsigned char *want = (void *)t->want, *got = (void *)t->got;
		uint64_t i = 0;
		while (want[i] == got[i]) i++;
		fprintf(stderr,
			"embed_c: thread %" PRIu64 ": byte %" PRIu64 " of %" PRIu64
			" at %p is %#02x, not %#02x: its memory was given to somebody else\n",
			t->number, at + i, b->size, b->ptr, got[i], want[i]);
		exit(1);
	}
	t->checked += b->size;
}

static void release(struct thread *t, struct block *b);

static void request(struct thread *t, const struct event *e, int lent) {
	struct block *b = &t->blocks[e->block];
	release(t, b); /* in a repeated step: what its last turn has kept */
	double start = now();
	*b = (struct block){NULL, (e->size + t->scale - 1) / t->scale, t->number << 56 | e->block,
			    lent, t->looks};
	b->ptr = stalloc_malloc(b->size, DEVICE, t->stream);
	t->spent += now() - start;
	if (b->size && !b->ptr) {
		fprintf(stderr, "embed_c: thread %" PRIu64 ", block %" PRIu32 ": %s\n", t->number,
			e->block, stalloc_last_error());
		exit(1);
	}
	if (b->filled) fill(t, b);
}

/* Checks a block and gives it back. One that was lent is in use on the
 * neighbour's stream until that has passed this point. */
static void release(struct thread *t, struct block *b) {
	if (!b->ptr) return;
	if (b->filled) check(t, b);
	double start = now();
	if (b->lent) stalloc_record_stream(b->ptr, t->neighbour);
	stalloc_free(b->ptr, b->size, DEVICE, t->stream);
	t->spent += now() - start;
	b->ptr = NULL;
}

/* One thread ends the step when all have done their part of it. */
static void meet(void) {
	if (pthread_barrier_wait(&boundary) == PTHREAD_BARRIER_SERIAL_THREAD) {
		if (stalloc_step(DEVICE) != STALLOC_OK) {
			fprintf(stderr, "embed_c: step: %s\n", stalloc_last_error());
			exit(1);
		}
		usleep(pause_ms * 1000);
	}
	pthread_barrier_wait(&boundary);
}

static void follow(struct thread *t, size_t from) {
	int requests = 0;
	for (size_t i = from; i < recording.count; i++) {
		const struct event *e = &recording.events[i];
		switch (e->kind) {
		case REQUEST: request(t, e, ++requests % LEND == 0); break;
		case FREE: release(t, &t->blocks[e->block]); break;
		case STEP:
			meet();
			requests = 0; /* steps shall be alike */
		}
	}
}

void *thread_follow(void *argument) {
	struct thread *t = argument;
	gpu_thread();
	t->looks = 1;
	follow(t, 0);
	for (int i = 1; i <= repeats; i++) {
		t->looks = i % LOOK == 0;
		follow(t, recording.last);
	}
	for (uint32_t i = 0; i < recording.blocks; i++) release(t, &t->blocks[i]);
	return NULL;
}

void thread_prepare(struct thread *t) {
	t->blocks = calloc(recording.blocks, sizeof(struct block));
	t->want = malloc(2 * PIECE * sizeof(uint64_t));
	if (!t->blocks || !t->want) abort();
	t->got = t->want + PIECE;
}
