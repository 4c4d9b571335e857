/* Allocates and frees as a training program would, in steps that repeat: each line that is
 * read is answered by the nanoseconds of a pair in the steps of the next 20 ms. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "stalloc.h"

enum { PAIRS = 1000, ROUND_NS = 20000000 };

static double nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void step(void)
{
	for (int i = 0; i < PAIRS; i++) {
		void *p = stalloc_malloc(512u << (i & 7), 0, NULL);
		__asm__ volatile("" : : "r"(p) : "memory");
		stalloc_free(p, 512u << (i & 7), 0, NULL);
	}
	stalloc_step(0);
}

int main(void)
{
	char line[16];
	struct stalloc_stats before, after = {0};
	for (int i = 0; i < 2000; i++) step(); /* the plan is made beside them */
	while (fgets(line, sizeof line, stdin)) {
		stalloc_get_stats(0, &before, sizeof before);
		double start = nanoseconds(), took;
		long pairs = 0;
		do {
			step();
			pairs += PAIRS;
			took = nanoseconds() - start;
		} while (took < ROUND_NS);
		stalloc_get_stats(0, &after, sizeof after);
		printf("%.3f %.4f\n", took / (double)pairs,
		       (double)(after.hits - before.hits) /
			       (double)(after.requests - before.requests));
		fflush(stdout);
	}
	return 0;
}
