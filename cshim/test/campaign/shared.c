/* Blocks of nobody in particular: whoever comes to a cell looks at its block, frees it or
 * puts one there. So blocks live long, and other threads free them than asked for them. */
#include <string.h>

#include "run.h"

enum { KEEPERS = 16 };
static struct cell {
	_Atomic bool busy;
	struct piece p;
} cells[CELLS];

/* Where wrong frees are tried, a block stays for the whole life: another thread may perform such
 * a free late, and must not find another block that begins there by then. */
static bool keeps(const struct cell *c) { return life.wrong && c < cells + KEEPERS; }

static struct cell *enter(struct worker *w)
{
	struct cell *c = &cells[kit_below(&w->random, CELLS)];
	bool no = false;
	return atomic_compare_exchange_strong(&c->busy, &no, true) ? c : NULL;
}

static void leave(struct cell *c) { atomic_store(&c->busy, false); }

void cell_leave(struct worker *w, struct piece *p)
{
	struct cell *c = enter(w);
	if (c && !keeps(c)) {
		piece_give(w, &c->p);
		c->p = *p;
	} else {
		piece_give(w, p);
	}
	if (c) leave(c);
	p->at = NULL;
}

static void look(struct worker *w, const struct piece *p)
{
	size_t n = 0, inside = kit_below(&w->random, p->size);
	void *base = stalloc_base((char *)p->at + inside, &n);
	CHECK(base == p->at && n >= p->size, "the base of %p and %zu of %zu bytes is %p of %zu",
	      p->at, inside, p->size, base, n);
	piece_check(p);
	w->did.looks++;
}

/* Frees of what is no block's start: each is ignored. */
static void wrong(struct worker *w, const struct piece *p)
{
	size_t inside =
		p->size > 512 ? 512 * (1 + kit_below(&w->random, (p->size - 1) / 512)) : 256;
	stalloc_free((char *)p->at + inside, 0, p->device, p->stream);
}

static void visit(struct worker *w, struct cell *c)
{
	uint64_t dice = kit_below(&w->random, 1000);
	if (c->p.at) {
		if (dice < 60) look(w, &c->p);
		if (dice >= 60 && dice < 140 && keeps(c)) wrong(w, &c->p);
		if (dice >= 140 && dice < 150 && !keeps(c)) piece_use(w, &c->p);
		if (dice >= 200 && !keeps(c)) piece_give(w, &c->p);
	} else {
		int device = (int)kit_below(&w->random, (uint64_t)life.devices),
		    road = road_enter(w, device, 0);
		piece_get(w, &c->p, some_size(w), device, road_stream(road));
		road_leave(road);
	}
}

void cells_play(struct worker *w)
{
	for (int i = 0; i < 400; i++) {
		struct cell *c = enter(w);
		if (!c) continue;
		visit(w, c);
		leave(c);
	}
}

/* Nobody is in a cell. */
void cells_dream(struct worker *w)
{
	for (int i = 0; i < CELLS; i++)
		if (cells[i].p.at && !keeps(&cells[i]) && kit_below(&w->random, 8) == 0)
			piece_dream(w, &cells[i].p);
}

void cells_wake(bool kept)
{
	for (int i = 0; i < CELLS; i++) piece_wake(&cells[i].p, kept);
}

uint64_t cells_live(int device, uint64_t *bytes, uint64_t *asked)
{
	uint64_t n = 0;
	*bytes = *asked = 0;
	for (int i = 0; i < CELLS; i++) {
		if (!cells[i].p.at || cells[i].p.device != device) continue;
		n++;
		*bytes += (cells[i].p.size + 511) & ~UINT64_C(511);
		*asked += cells[i].p.size;
	}
	return n;
}

void cells_clear(struct worker *w)
{
	for (int i = 0; i < CELLS; i++) piece_give(w, &cells[i].p);
}
