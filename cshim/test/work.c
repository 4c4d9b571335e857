#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t some_sizes[] = {512,    512,     1000,	 4096,      5000,	    60000,
				    300000, 1 << 20, (2 << 20) + 512, 3 << 20, 5 << 20, 20 << 20};
enum { SIZES = sizeof some_sizes / sizeof *some_sizes };

struct block block_get(size_t size, int device, void *stream, uint64_t tag)
{
	struct block b = {kit_get(size, device, stream), size, tag, stream};
	kit_fill(b.at, size, tag);
	kit_progress();
	return b;
}

void block_check(const struct block *b)
{
	long bad = kit_damage(b->at, b->size, b->tag);
	CHECK(bad < 0, "the block at %p of %zu bytes (tag %#llx) was overwritten at byte %ld",
	      b->at, b->size, (ull)b->tag, bad);
}

void block_free(const struct block *b)
{
	block_check(b);
	stalloc_free(b->at, 0, 0, b->stream);
	kit_progress();
}

/* STALLOC_TEST_LARGEST leaves the larger sizes out. */
static size_t some_size(uint64_t *random)
{
	size_t largest = kit_number("STALLOC_TEST_LARGEST", 20 << 20), size;
	do size = some_sizes[kit_below(random, SIZES)];
	while (size > largest);
	return size;
}

static void add_request(struct program *p, int *live, int *n, size_t size)
{
	p->sizes[p->slots] = size;
	live[(*n)++] = p->slots;
	p->op[p->ops++] = p->slots++;
}

/* Frees the i-th live slot; returns its size. */
static size_t add_free(struct program *p, int *live, int *n, int i)
{
	int slot = live[i];
	p->op[p->ops++] = ~slot;
	live[i] = live[--*n];
	return p->sizes[slot];
}

struct program program_make(uint64_t seed, int slots, size_t most_live)
{
	struct program p = {0};
	int *live = calloc((size_t)slots + 1, sizeof *live), n = 0;
	size_t bytes = 0, room = 64 * (size_t)kit_number("STALLOC_TEST_LARGEST", 20 << 20);
	if (most_live > room) most_live = room;
	p.sizes = calloc((size_t)slots + 1, sizeof *p.sizes);
	p.op = calloc(2 * (size_t)slots + 2, sizeof *p.op);
	while (p.slots < slots || n > 0) {
		size_t size = some_size(&seed);
		if (p.slots == slots / 2 &&
		    most_live - bytes >= 512) { /* fills up, and goes again */
			add_request(&p, live, &n, most_live - bytes);
			p.half = p.ops;
			add_free(&p, live, &n, n - 1);
		} else if (p.slots < slots && bytes + size <= most_live &&
			   (n == 0 || kit_below(&seed, 5) < 3)) {
			add_request(&p, live, &n, size);
			bytes += size;
		} else if (n > 0) {
			bytes -= add_free(&p, live, &n, (int)kit_below(&seed, (uint64_t)n));
		}
	}
	free(live);
	return p;
}

void program_drop(struct program *p)
{
	free(p->sizes);
	free(p->op);
	*p = (struct program){0};
}

static void *reap(void *argument)
{
	struct reaper *r = argument;
	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (r->head == r->tail && !r->stop) pthread_cond_wait(&r->changed, &r->lock);
		if (r->head == r->tail) break;
		struct block b = r->queue[r->tail % 256];
		pthread_mutex_unlock(&r->lock);
		block_free(&b);
		pthread_mutex_lock(&r->lock);
		r->tail++;
		pthread_cond_broadcast(&r->changed);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

void reaper_start(struct reaper *r)
{
	memset(r, 0, sizeof *r);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	r->thread = kit_thread(reap, r);
}

void reaper_post(struct reaper *r, struct block b, bool wait)
{
	pthread_mutex_lock(&r->lock);
	while (r->head - r->tail == 256) pthread_cond_wait(&r->changed, &r->lock);
	unsigned mine = ++r->head;
	r->queue[(mine - 1) % 256] = b;
	pthread_cond_broadcast(&r->changed);
	while (wait && (int)(r->tail - mine) < 0) pthread_cond_wait(&r->changed, &r->lock);
	pthread_mutex_unlock(&r->lock);
}

void reaper_stop(struct reaper *r)
{
	pthread_mutex_lock(&r->lock);
	r->stop = true;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
}

static bool chance(struct player *p, unsigned permille)
{
	return permille != 0 && kit_below(&p->random, 1000) < permille;
}

static struct block request(struct player *p, size_t size)
{
	struct block b = {.size = size, .stream = p->stream, .tag = p->id << 40 | ++p->sequence};
	b.at = stalloc_malloc(size, 0, p->stream);
	if (!b.at) {
		p->failed++;
		return b;
	}
	CHECK((uintptr_t)b.at % 512 == 0, "%p is not aligned to 512", b.at);
	kit_fill(b.at, size, b.tag);
	if (chance(p, p->rates.shared)) stalloc_record_stream(b.at, p->other);
	kit_progress();
	return b;
}

static void give_back(struct player *p, struct block b)
{
	if (!b.at) return;
	if (p->reaper_count > 0 && chance(p, p->rates.cross))
		reaper_post(&p->reapers[kit_below(&p->random, (uint64_t)p->reaper_count)], b,
			    p->rates.wait);
	else
		block_free(&b);
}

static void free_later(struct player *p, struct block b)
{
	if (!b.at) return;
	if (p->late_count == 64) {
		int i = (int)kit_below(&p->random, 64);
		give_back(p, p->late[i]);
		p->late[i] = b;
		return;
	}
	p->late[p->late_count++] = b;
}

static void perform(struct player *p, int op)
{
	if (op >= 0) {
		if (chance(p, p->rates.noise)) return; /* left out */
		p->live[op] = request(p, p->program->sizes[op]);
		if (chance(p, p->rates.noise)) free_later(p, request(p, some_size(&p->random)));
		return;
	}
	struct block b = p->live[~op];
	p->live[~op] = (struct block){0};
	if (b.at && chance(p, p->rates.noise))
		free_later(p, b);
	else
		give_back(p, b);
	if (p->late_count > 0 && kit_below(&p->random, 4) == 0)
		give_back(p, p->late[--p->late_count]);
}

void player_first_half(struct player *p)
{
	if (p->room < p->program->slots) {
		p->live = realloc(p->live, (size_t)p->program->slots * sizeof *p->live);
		CHECK(p->live, "no memory");
		p->room = p->program->slots;
	}
	memset(p->live, 0, (size_t)p->room * sizeof *p->live);
	for (int i = 0; i < p->program->half; i++) perform(p, p->program->op[i]);
}

void player_second_half(struct player *p)
{
	for (int i = p->program->half; i < p->program->ops; i++) perform(p, p->program->op[i]);
}

void player_end(struct player *p)
{
	while (p->late_count > 0) block_free(&p->late[--p->late_count]);
	free(p->live);
	p->live = NULL;
	p->room = 0;
}
