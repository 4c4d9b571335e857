/* Planning, for compilers and other runtimes. libstalloc_engine.so exports it: link with
 * -lstalloc_engine. It needs no GPU, no stalloc_init and nothing else of stalloc. */
#ifndef STALLOC_SOLVE_H
#define STALLOC_SOLVE_H

#include <stddef.h>
#include <stdint.h>

#define STALLOC_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Dynamic storage allocation with all lifetimes known: offsets for buffers, so that no two that are
 * live at the same time share a byte. Only the order of times matters; all other numbers are in
 * bytes or in any other unit. */
struct stalloc_gap { /* from lower to upper the buffer needs only bytes [from, to), maybe none */
	int64_t buffer, lower, upper, from, to;
};

struct stalloc_problem { /* set all to 0 first */
	size_t buffers;
	const int64_t *lower, *upper, *size; /* by buffer: it lives in [lower, upper) */
	const int64_t *alignment; /* by buffer: its offset is a multiple of it; NULL: of 1 */
	const int64_t *pinned;	  /* by buffer: its offset, negative: any; NULL: any for all */
	size_t gaps;
	const struct stalloc_gap *gap;
	int64_t capacity;   /* every buffer must end at or below it; 0: as low as possible */
	const char *solver; /* a name that `stalloc plan --solver` takes; NULL: the default */
	int64_t budget; /* units of work, some ten million a second; 0: the default, <= 1 min */
	uint64_t seed;	/* the same problem, budget and seed give the same result everywhere */
	const int64_t *warm; /* by buffer: a placement to start from; NULL: none */
	/* If not NULL, called at least every 10^6 units with the top of the best placement so far,
	 * the lower bound and the units spent. If it returns anything but 0, the search ends with
	 * the best placement so far. It runs on the thread that called stalloc_solve, and must not
	 * throw. */
	int (*progress)(void *context, int64_t top, int64_t bound, int64_t units);
	void *context;
};

struct stalloc_solution {
	int64_t *offsets; /* of the caller, by buffer; set on STALLOC_OK */
	int64_t top;      /* where the highest buffer ends */
	int64_t bound;    /* no placement has a lower top */
	int64_t units;    /* of work spent */
	int optimal;      /* 1: proved, no placement has a lower top */
	int fits;         /* 1: the top is within the capacity, or there is none */
	int never;        /* 1: proved, no placement is within the capacity */
	char *error; /* of the caller, NULL or room for a text of error_size bytes, with its NUL */
	size_t error_size;
};

/* Returns STALLOC_OK (0), even if the capacity is not met; or STALLOC_ERR_ARGUMENT for an invalid
 * problem, with the reason in error. */
STALLOC_API int stalloc_solve(struct stalloc_problem *problem, struct stalloc_solution *solution);

/* Plans which idle memory leaves the device within a step, and when it comes back, so that the step
 * fits under a limit. Both texts are JSON; names, units and rules are those of Go's
 * residency.Problem and residency.Plan:
 *
 *	{"Limit": bytes, "Handle": least bytes that move, "Link": {"Out": bytes/s, "Back": bytes/s},
 *	 "Load": [{"From": ns, "Bytes": all else from then on}],
 *	 "Items": [{"Size": bytes, "Idle": ns, "Need": ns, "Parts": it may leave in parts}]}
 *	{"Moves": [{"Item", "Offset", "Size", "OutFrom", "OutUntil", "BackFrom", "BackUntil"}],
 *	 "Waits": [{"At", "For"}], "Wait", "Peak", "Left", "Over": bytes too many, nothing moves}
 *
 * Returns the plan's length without the final NUL, as snprintf does, or STALLOC_ERR_ARGUMENT with
 * the reason in plan. */
STALLOC_API int stalloc_residency(const char *problem, char *plan, size_t length);

#ifdef __cplusplus
}
#endif
#endif
