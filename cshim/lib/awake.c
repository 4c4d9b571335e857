/* Regions that lend their memory while the program does not use them. */
#include "runtime.h"

/* The engine for a call about a region of one device; NULL: the result says what to return. */
static const struct stalloc_engine *for_region(int device, const char *tag, int *result) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	*result = stalloc_check_device(device, 0);
	if (*result == STALLOC_OK && !tag)
		*result = stalloc_fail(STALLOC_ERR_ARGUMENT, "no region is named");
	if (*result != STALLOC_OK) return NULL;
	const char *problem = stalloc_engine_problem(device);
	if (problem && !e)
		*result = stalloc_fail(STALLOC_ERR_ENGINE,
				       "plain driver allocations serve, which stay: %s", problem);
	if (e) stalloc_drain_now(&stalloc_devices[device]); /* frees may be waiting */
	return e;					    /* none: nothing was allocated yet */
}

int stalloc_begin_awake(int device, const char *tag, void *stream) {
	char err[1024] = "";
	int result;
	const struct stalloc_engine *e = for_region(device, tag, &result);
	if (!e) return result;
	result = e->begin_awake(device, tag, (uintptr_t)stream, err, sizeof err);
	return stalloc_fail(result, "the region \"%s\" cannot be used: %s", tag, err);
}

int stalloc_end_awake(int device, const char *tag, void *stream, int how) {
	char err[1024] = "";
	int result;
	if (how < 0 || how > (STALLOC_CHANGED | STALLOC_ALL_LEAVES | STALLOC_MORE_FOLLOW))
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "%d is no sum of STALLOC_CHANGED, STALLOC_ALL_LEAVES and "
				    "STALLOC_MORE_FOLLOW",
				    how);
	const struct stalloc_engine *e = for_region(device, tag, &result);
	if (!e) return result;
	result = e->end_awake(device, tag, (uintptr_t)stream, how, err, sizeof err);
	return stalloc_fail(result, "the region \"%s\" cannot be lent: %s", tag, err);
}

int stalloc_prefetch(int device, const char *tag) {
	char err[1024] = "";
	int result;
	const struct stalloc_engine *e = for_region(device, tag, &result);
	if (!e) return result;
	result = e->prefetch(device, tag, err, sizeof err);
	return stalloc_fail(result, "the region \"%s\" cannot be fetched: %s", tag, err);
}
