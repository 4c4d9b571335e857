/* Which region each thread is in. What a region contains the engine knows. */
#include "runtime.h"

__thread struct stalloc_regions stalloc_regions;
enum { DEEPEST = sizeof stalloc_regions.pools / sizeof *stalloc_regions.pools };

int stalloc_begin_region(const char *tag) {
	char err[1024] = "";
	/* It stays 0 with plain driver allocations: the program runs on, and pause fails. */
	uint64_t pool = 0;
	if (!tag || !*tag)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "a region has no name: give it one that is not empty");
	if (stalloc_regions.count == DEEPEST)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "regions are nested more than %d deep at \"%s\"", DEEPEST, tag);
	const struct stalloc_engine *e = stalloc_ready() ? stalloc_engine_of_any() : NULL;
	int result = e ? e->region(tag, &pool, err, sizeof err) : STALLOC_OK;
	if (result != STALLOC_OK)
		return stalloc_fail(result, "the region \"%s\" cannot begin: %s", tag, err);
	stalloc_regions.pools[stalloc_regions.count++] = pool;
	stalloc_invalidate_recent();
	return STALLOC_OK;
}

int stalloc_end_region(void) {
	if (stalloc_regions.count == 0)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "this thread is in no region: begin one first");
	stalloc_regions.count--;
	return STALLOC_OK;
}
