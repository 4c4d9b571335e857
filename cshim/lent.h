/* The state of the Go engine as it lies in memory while it is lent (engine/onerange,
 * lent.go): the same structs, field by field; cshim/engine compares them at start. Units
 * are 512 bytes, counted from base; all numbers of things begin at 1, and 0 is none. */
#ifndef STALLOC_LENT_H
#define STALLOC_LENT_H

#include <stdbool.h>
#include <stdint.h>

#define STALLOC_GRAIN_BITS 9
#define STALLOC_GRAIN (1u << STALLOC_GRAIN_BITS)
#define RANGE_START_BITS 33
#define RANGE_NUMBER_BITS 31 /* what a start leaves of a word */
#define RANGE_CLASS_BITS 5
#define RANGE_CLASSES (32 * (RANGE_START_BITS - RANGE_CLASS_BITS))
#define RANGE_CLASS_WORDS ((RANGE_CLASSES + 63) / 64)
enum { RANGE_BY_ADDR, RANGE_BY_SIZE };
enum { RANGE_LARGE, RANGE_SMALL };
enum { RANGE_BLOCK_GONE, RANGE_BLOCK_LIVE, RANGE_BLOCK_PENDING };

struct range_gap {
	uint64_t key[2]; /* by address: start; by size: size << START_BITS | start */
	uint32_t kid[2][2];
	uint32_t space;
	uint32_t prev, next; /* links: of a gap 2n, of a block 2n + 1 */
};

struct range_space {
	uint32_t heap, kind;
	struct {
		uint32_t root[RANGE_CLASSES];
		uint64_t some[RANGE_CLASS_WORDS];
		uint32_t addrs;
	} free;
	int64_t units, held, load, peak, expected;
	uint32_t first, last;
	uint64_t version;
};

struct range_block {
	uint64_t at, size;
	uint32_t space, view, users;
	int32_t fences;
	uint32_t prev, next;
	uint8_t state;
	uint16_t less;
	uint32_t step;
};

struct range_heap {
	uint64_t stream, pool;
	uint32_t spaces[2];
	bool over;
};

/* onerange.Counters */
struct range_counters {
	uint64_t clock;
	int64_t load, peak_load, pending, peak_held, blocks;
	uint64_t wished, fits, spare_gap, spare_block, gap_n, block_n, starts, steps;
};

struct stalloc_range {
	uint64_t base;
	uint64_t small_limit; /* units */
	uint64_t until; /* the clock at which the engine wants to be asked again */
	uint64_t most;  /* units of a request that no tape knows, of those that it does not want to see */
	struct range_counters now;
	uint32_t tape_only; /* it wants to see all requests that no tape knows */
	uint32_t lent;	    /* 0: the engine has its state */
	uint32_t broken;    /* an equation did not hold: the state is of no use any more */
	uint32_t start_shift;
	int64_t block_most; /* blocks for which there is room */
	uint64_t *starts;
	struct range_gap *gaps;
	struct range_space *spaces;
	struct range_block *blocks;
	struct range_heap *heaps;
	uint32_t heap_n; /* length of heaps */
};

#endif
