/* Blocks with a claim on their bytes and a pattern in them.
 *
 * A bit stands for each 512 bytes of the address space, set while they are somebody's: of
 * two blocks that overlap one finds it out when it is handed out. The pattern tells what
 * the addresses do not: the same memory at two of them, and bytes that get lost. It is
 * a word at both ends and a few between, in every 64th block all of it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "run.h"

enum { GRAIN = 512, ADDRESS_BITS = 47, FEW = 6, FULL = 64, STRIDE = 1 << 20 };

static _Atomic uint64_t *claims;

void tracked_open(void)
{
	size_t bytes = ((size_t)1 << ADDRESS_BITS) / GRAIN / 8;
	claims = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(claims != MAP_FAILED, "no addresses for the claims");
}

void tracked_claim(const struct tracked *p, bool in)
{
	uint64_t from = (uintptr_t)p->at / GRAIN,
		 end = ((uintptr_t)p->at + p->size + GRAIN - 1) / GRAIN;
	while (from < end) {
		uint64_t until = (from / 64 + 1) * 64, n = (until < end ? until : end) - from;
		uint64_t mask = (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << from % 64;
		uint64_t was = in ? atomic_fetch_or_explicit(&claims[from / 64], mask,
							     memory_order_relaxed)
				  : ~atomic_fetch_and_explicit(&claims[from / 64], ~mask,
							       memory_order_relaxed);
		CHECK((was & mask) == 0,
		      "%s %p of %zu bytes on device %d, stream %p, tag %#llx: %s",
		      in ? "block" : "the free of", p->at, p->size, p->device, p->stream,
		      (ull)p->tag, in ? "some of its bytes are another's (an overlap)"
			 : "some of its bytes were nobody's");
		from += n;
	}
}

long tracked_words(const struct tracked *p, bool write)
{
	size_t last = (p->size - 8) & ~(size_t)7, step = (p->size / FEW + 8) & ~(size_t)7;
	if (step > STRIDE) step = STRIDE;
	for (size_t at = 0;; at = at + step < last ? at + step : last) {
		uint64_t *word = (uint64_t *)((char *)p->at + at),
			 want = (p->tag + at) * 0x9E3779B97F4A7C15u;
		if (write)
			*word = want;
		else if (*word != want)
			return (long)at;
		if (at == last) return -1;
	}
}

static bool whole_pattern(const struct tracked *p) { return p->tag % FULL == 0 || p->size < 16; }

void tracked_check(const struct tracked *p)
{
	long bad = whole_pattern(p) ? kit_damage(p->at, p->size, p->tag) : tracked_words(p, false);
	CHECK(bad < 0,
	      "block %p of %zu bytes on device %d, stream %p, tag %#llx was overwritten at byte "
	      "%ld", p->at, p->size, p->device, p->stream, (ull)p->tag, bad);
}

static void fill(const struct tracked *p)
{
	if (whole_pattern(p))
		kit_fill(p->at, p->size, p->tag);
	else
		tracked_words(p, true);
}

bool tracked_malloc(struct worker *w, struct tracked *p, size_t size, int device, void *stream)
{
	*p = (struct tracked){.size = size,
			      .device = device,
			      .stream = stream,
			      .tag = (uint64_t)w->id << 48 | ++w->sequence};
	p->at = stalloc_malloc(size, device, stream);
	if (w->sequence % 64 == 0) kit_progress();
	if (!p->at) {
		const char *error = stalloc_last_error();
		w->did.refused++;
		CHECK(*error, "a request was refused without a text");
		/* In a region that is still being copied back. */
		bool captured = strstr(error, "being captured");
		CHECK(!run.no_oom || captured, "%zu bytes on device %d were refused: %s", size,
		      device, error);
		CHECK(run.faults || captured || strstr(error, "out of memory"),
		      "%zu bytes on device %d were refused: %s", size, device, error);
		return false;
	}
	CHECK((uintptr_t)p->at % GRAIN == 0, "%p is not aligned", p->at);
	w->served[device]++;
	tracked_claim(p, true);
	fill(p);
	return true;
}

/* Callers pass stale sizes, other streams, and of a block that went through many hands even
 * another device. */
static void free_loosely(struct worker *w, const struct tracked *p)
{
	uint64_t dice = kit_below(&w->random, 256);
	void *stream = dice == 0 ? NULL : p->stream;
	int device = dice == 1 ? (p->device + 1) % run.devices : p->device;
	stalloc_free(p->at, dice < 40 ? dice : p->size, device, stream);
	if (p->used_on) slot_release(p->used_on - 1);
}

void tracked_record_stream(struct worker *w, struct tracked *p)
{
	if (p->used_on) return;
	int slot = slot_acquire(w, (int)kit_below(&w->random, (uint64_t)run.devices), 0);
	p->used_on = slot + 1;
	stalloc_record_stream(p->at, slot_stream(slot));
}

static void free_unchecked(struct worker *w, struct tracked *p)
{
	tracked_claim(p, false);
	free_loosely(w, p);
	p->at = NULL;
}

void tracked_free(struct worker *w, struct tracked *p)
{
	if (!p->at) return;
	tracked_check(p);
	free_unchecked(w, p);
}

void tracked_free_asleep(struct worker *w, struct tracked *p)
{
	if (kit_below(&w->random, 4) == 0) tracked_record_stream(w, p);
	free_unchecked(w, p);
}

void tracked_resumed(const struct tracked *p, bool kept)
{
	if (p->at) kept ? tracked_check(p) : fill(p);
}

void tracked_free_claimed(struct worker *w, struct tracked *p)
{
	tracked_check(p);
	free_loosely(w, p);
}

void tracked_unclaim(const struct tracked *p) { tracked_claim(p, false); }

size_t random_size(struct worker *w)
{
	uint64_t dice = kit_below(&w->random, 1000);
	size_t most = dice < 400 ? 4096 : dice < 997 ? run.largest : (size_t)24 << 20;
	most = dice % 2 ? most : (most >> kit_below(&w->random, 8)) + 1;
	return 1 + kit_below(&w->random, most);
}
