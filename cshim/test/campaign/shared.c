/* A table that all threads share: each checks and frees the blocks in it, or puts one there. So
 * blocks live long, and other threads free them than requested them. */
#include <string.h>

#include "run.h"

enum { PERMANENT = 16 };
static struct entry {
	_Atomic bool busy;
	struct tracked p;
} table[SHARED];

/* Where wrong frees are tried, a block stays for the whole run: another thread may perform such
 * a free late, and must not find another block that begins there by then. */
static bool permanent(const struct entry *e) { return run.wrong_frees && e < table + PERMANENT; }

static struct entry *acquire(struct worker *w)
{
	struct entry *e = &table[kit_below(&w->random, SHARED)];
	bool no = false;
	return atomic_compare_exchange_strong(&e->busy, &no, true) ? e : NULL;
}

static void release(struct entry *e) { atomic_store(&e->busy, false); }

void shared_put(struct worker *w, struct tracked *p)
{
	struct entry *e = acquire(w);
	if (e && !permanent(e)) {
		tracked_free(w, &e->p);
		e->p = *p;
	} else {
		tracked_free(w, p);
	}
	if (e) release(e);
	p->at = NULL;
}

static void inspect(struct worker *w, const struct tracked *p)
{
	size_t n = 0, inside = kit_below(&w->random, p->size);
	void *base = stalloc_base((char *)p->at + inside, &n);
	CHECK(base == p->at && n >= p->size, "the base of %p and %zu of %zu bytes is %p of %zu",
	      p->at, inside, p->size, base, n);
	tracked_check(p);
	w->did.looks++;
}

/* Frees of what is no block's start: each is ignored. */
static void wrong_free(struct worker *w, const struct tracked *p)
{
	size_t inside =
		p->size > 512 ? 512 * (1 + kit_below(&w->random, (p->size - 1) / 512)) : 256;
	stalloc_free((char *)p->at + inside, 0, p->device, p->stream);
}

static void visit(struct worker *w, struct entry *e)
{
	uint64_t dice = kit_below(&w->random, 1000);
	if (e->p.at) {
		if (dice < 60) inspect(w, &e->p);
		if (dice >= 60 && dice < 140 && permanent(e)) wrong_free(w, &e->p);
		if (dice >= 140 && dice < 150 && !permanent(e)) tracked_record_stream(w, &e->p);
		if (dice >= 200 && !permanent(e)) tracked_free(w, &e->p);
	} else {
		int device = (int)kit_below(&w->random, (uint64_t)run.devices),
		    slot = slot_acquire(w, device, 0);
		tracked_malloc(w, &e->p, random_size(w), device, slot_stream(slot));
		slot_release(slot);
	}
}

void shared_play(struct worker *w)
{
	for (int i = 0; i < 400; i++) {
		struct entry *e = acquire(w);
		if (!e) continue;
		visit(w, e);
		release(e);
	}
}

/* No thread uses an entry meanwhile. */
void shared_free_asleep(struct worker *w)
{
	for (int i = 0; i < SHARED; i++)
		if (table[i].p.at && !permanent(&table[i]) && kit_below(&w->random, 8) == 0)
			tracked_free_asleep(w, &table[i].p);
}

void shared_resumed(bool kept)
{
	for (int i = 0; i < SHARED; i++) tracked_resumed(&table[i].p, kept);
}

uint64_t shared_live(int device, uint64_t *bytes, uint64_t *requested)
{
	uint64_t n = 0;
	*bytes = *requested = 0;
	for (int i = 0; i < SHARED; i++) {
		if (!table[i].p.at || table[i].p.device != device) continue;
		n++;
		*bytes += (table[i].p.size + 511) & ~UINT64_C(511);
		*requested += table[i].p.size;
	}
	return n;
}

void shared_clear(struct worker *w)
{
	for (int i = 0; i < SHARED; i++) tracked_free(w, &table[i].p);
}
