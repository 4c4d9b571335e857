/* Regions that lend their memory while the program does not use them. */
#include "runtime.h"

/* verb: what cannot be done to the region if it fails. */
static int change(int device, const char *tag, void *stream, int how, const char *verb) {
	char err[1024] = "";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (stalloc_check_device(device, 0)) return STALLOC_ERR_ARGUMENT;
	if (!tag) return stalloc_fail(STALLOC_ERR_ARGUMENT, "no region is named");
	const char *problem = stalloc_engine_problem(device);
	if (!e && problem)
		return stalloc_fail(STALLOC_ERR_ENGINE,
				    "stalloc's engine does not serve the device, and plain driver "
				    "allocations cannot be lent: %s",
				    problem);
	if (!e) return STALLOC_OK;		      /* nothing was allocated yet */
	stalloc_drain_now(&stalloc_devices[device]); /* frees may be waiting */
	int result = e->awake(device, tag, (uintptr_t)stream, how, err, sizeof err);
	return stalloc_fail(result, "the region \"%s\" cannot be %s: %s", tag, verb, err);
}

int stalloc_begin_awake(int device, const char *tag, void *stream) {
	return change(device, tag, stream, STALLOC_BEGIN_AWAKE, "used");
}

int stalloc_end_awake(int device, const char *tag, void *stream, int how) {
	if (how < 0 || how > (STALLOC_CHANGED | STALLOC_ALL_LEAVES | STALLOC_MORE_FOLLOW))
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "%d is no sum of STALLOC_CHANGED, STALLOC_ALL_LEAVES and "
				    "STALLOC_MORE_FOLLOW",
				    how);
	return change(device, tag, stream, how, "lent");
}

int stalloc_prefetch(int device, const char *tag) {
	return change(device, tag, NULL, STALLOC_PREFETCH, "fetched");
}
