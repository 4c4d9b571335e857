/* An engine that has answered that it is broken is not asked for memory of that device
 * any more: what it answers next may be wrong. STALLOC_TEST_BREAKS names the request of
 * the stand-in engine that breaks it. */
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

int main(void)
{
	enum { BLOCKS = 12 };
	const size_t size = 1 << 20;
	uint64_t breaks = kit_number("STALLOC_TEST_BREAKS", 0);
	char *blocks[BLOCKS];
	CHECK(breaks > 1 && breaks < BLOCKS, "set STALLOC_TEST_BREAKS");
	stalloc_begin_pool(0, 1, 1, NULL); /* the engine is asked for each block */
	for (uint64_t i = 0; i < BLOCKS; i++) {
		blocks[i] = kit_get(size, 0, NULL);
		kit_fill(blocks[i], size, i);
		long plain = i + 1 < breaks ? 0 : (long)(i + 2 - breaks);
		CHECK(fake(live)("blocks") == plain,
		      "after request %llu the driver holds %ld plain blocks, want %ld",
		      (ull)i + 1, fake(live)("blocks"), plain);
	}
	stalloc_end_pool(0, 1, 1);
	for (uint64_t i = 0; i < BLOCKS; i++) { /* what the engine handed out stays known to it */
		CHECK(kit_damage(blocks[i], size, i) < 0, "block %llu was overwritten", (ull)i);
		stalloc_free(blocks[i], 0, 0, NULL);
	}
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0 && s.blocks == 0 && s.reserved == 0, "%llu bytes are left",
	      (ull)s.allocated);
	puts("broken: the engine is not asked any more");
	return 0;
}
