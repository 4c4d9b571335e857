/* porttest_front.c as Go sees it. */
#ifndef STALLOC_PORTTEST_H
#define STALLOC_PORTTEST_H

#include <stdint.h>

#define PORTTEST_MOST 4096

/* A block that the pool has taken over. */
struct porttest_block {
	uint64_t addr, asked, stream;
};
void porttest_takes(struct porttest_block b);
/* The frees that reached the pool since the last call, at most PORTTEST_MOST, and how
 * many were of nothing. */
int porttest_freed(uint64_t *out, int *unknown);
/* The same of pinned blocks that were freed. */
int porttest_left(uint64_t *out);

#endif
