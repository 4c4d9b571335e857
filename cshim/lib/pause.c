/* Pausing memory, and resuming it. */
#include "runtime.h"

/* Why the engine does not serve a device, or (-1) any device; NULL: it does. */
static const char *problem_of(int device) {
	const char *problem = stalloc_engine_problem(device < 0 ? 0 : device);
	for (int i = 1; device < 0 && problem && i < STALLOC_MAX_DEVICES; i++)
		if (!stalloc_engine_problem(i)) problem = NULL;
	return problem;
}

/* Closed devices are resumed, too. */
static int change(int device, const char *const *tags, size_t n, int how) {
	char err[4096] = "";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	const bool resume = how == STALLOC_RESUME;
	const char *problem = e && resume ? NULL : problem_of(device);
	if (problem)
		return stalloc_fail(STALLOC_ERR_ENGINE,
				    "stalloc's engine does not serve the device, and plain driver "
				    "allocations cannot sleep: %s",
				    problem);
	if (!e) return STALLOC_OK; /* nothing was allocated yet */
	if (!resume) stalloc_end_failed_captures();
	for (int i = 0; i < STALLOC_MAX_DEVICES && !resume; i++) /* frees may be waiting */
		if (device < 0 || i == device) stalloc_drain_now(&stalloc_devices[i]);
	int result = e->sleep(device, tags, n, how, err, sizeof err);
	return stalloc_fail(result, "the memory cannot be %s: %s", resume ? "resumed" : "paused",
			    err);
}

static int check_arguments(int device, const char *const *tags, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (!tags || !tags[i])
			return stalloc_fail(STALLOC_ERR_ARGUMENT, "tag %zu of %zu is NULL", i + 1,
					    n);
	return stalloc_check_device(device, -1);
}

int stalloc_pause(int device, const char *const *tags, size_t n, int backup) {
	if (check_arguments(device, tags, n)) return STALLOC_ERR_ARGUMENT;
	if (backup != STALLOC_BACKUP_HOST && backup != STALLOC_BACKUP_DISCARD)
		return stalloc_fail(
			STALLOC_ERR_ARGUMENT,
			"%d is no backup: expected STALLOC_BACKUP_HOST or STALLOC_BACKUP_DISCARD",
			backup);
	return change(device, tags, n, backup);
}

int stalloc_resume(int device, const char *const *tags, size_t n) {
	if (check_arguments(device, tags, n)) return STALLOC_ERR_ARGUMENT;
	return change(device, tags, n, STALLOC_RESUME);
}
