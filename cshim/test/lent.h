/* A pool that the stand-in engine lends, so that ThreadSanitizer sees both sides of the
 * lending. The pages of a stream are mapped twice, as stitched views are: blocks that
 * overlap, through whatever view, are found by their patterns and by a recount. */
#ifndef STALLOC_TEST_LENT_H
#define STALLOC_TEST_LENT_H

#include "../shared.h"

/* Lends a device a pool of 48 MiB for each of its streams 0, 0x1000 and 0x2000. */
void lent_make(struct stalloc_device *device);

/* Frees a block of the pool, as the engine does when C could not. */
bool lent_free(uint64_t addr, struct stalloc_freed *freed);

/* Takes the pool back for a moment, recounts it and moves a step on. */
void lent_boundary(void);

#endif
