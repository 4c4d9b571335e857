/* Regions, and memory that sleeps. What a region is the engine knows; here is in which one a
 * thread is. */
#include <stdio.h>

#include "runtime.h"

__thread struct stalloc_regions stalloc_regions;
enum { DEEPEST = sizeof stalloc_regions.pools / sizeof *stalloc_regions.pools };

int stalloc_begin_region(const char *tag) {
	char err[1024] = "";
	uint64_t pool = 0; /* where plain driver allocations serve: the program goes on, and pause says why it cannot */
	if (!tag || !*tag) return stalloc_fail(STALLOC_ERR_ARGUMENT, "a region has no name: give it one that is not empty");
	if (stalloc_regions.count == DEEPEST) return stalloc_fail(STALLOC_ERR_ARGUMENT, "regions are nested more than %d deep at \"%s\"", DEEPEST, tag);
	const struct stalloc_engine *e = stalloc_ready() ? stalloc_engine_of_any() : NULL;
	int result = e ? e->region(tag, &pool, err, sizeof err) : STALLOC_OK;
	if (result != STALLOC_OK) return stalloc_fail(result, "the region \"%s\" cannot begin: %s", tag, err);
	stalloc_regions.pools[stalloc_regions.count++] = pool;
	stalloc_look_again();
	return STALLOC_OK;
}

int stalloc_end_region(void) {
	if (stalloc_regions.count == 0) return stalloc_fail(STALLOC_ERR_ARGUMENT, "this thread is in no region");
	stalloc_regions.count--;
	return STALLOC_OK;
}

/* What is wrong with what pause and resume are told, or STALLOC_OK. */
static int refused(int device, const char *const *tags, size_t n) {
	if (device < -1 || device >= STALLOC_MAX_DEVICES) return stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	for (size_t i = 0; i < n; i++)
		if (!tags || !tags[i]) return stalloc_fail(STALLOC_ERR_ARGUMENT, "tag %zu of %zu is none", i + 1, n);
	return STALLOC_OK;
}

/* Why the engine does not serve a device, or (-1) none of them; NULL: it does. */
static const char *problem_of(int device) {
	const char *problem = stalloc_engine_problem(device < 0 ? 0 : device);
	for (int i = 1; device < 0 && problem && i < STALLOC_MAX_DEVICES; i++)
		if (!stalloc_engine_problem(i)) problem = NULL;
	return problem;
}

static int cannot_sleep(const char *problem) {
	return stalloc_fail(STALLOC_ERR_ENGINE, "plain driver allocations serve, which cannot sleep: %s", problem);
}

int stalloc_pause(int device, const char *const *tags, size_t n, int backup) {
	char err[4096] = "";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	int result = refused(device, tags, n);
	if (result != STALLOC_OK) return result;
	if (backup != STALLOC_BACKUP_HOST && backup != STALLOC_BACKUP_DISCARD)
		return stalloc_fail(STALLOC_ERR_ARGUMENT, "%d is no backup: expected STALLOC_BACKUP_HOST or STALLOC_BACKUP_DISCARD", backup);
	const char *problem = problem_of(device);
	if (problem) return cannot_sleep(problem);
	if (!e) return STALLOC_OK; /* nothing was allocated yet */
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) /* frees that nobody has looked at */
		if (device < 0 || i == device) stalloc_settle(&stalloc_devices[i]);
	result = e->pause(device, tags, n, backup == STALLOC_BACKUP_HOST, err, sizeof err);
	return result == STALLOC_OK ? result : stalloc_fail(result, "the memory cannot be paused: %s", err);
}

/* What sleeps on a device that was closed wakes, too. */
int stalloc_resume(int device, const char *const *tags, size_t n) {
	char err[4096] = "";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	int result = refused(device, tags, n);
	if (result != STALLOC_OK) return result;
	const char *problem = e ? NULL : problem_of(device);
	if (problem) return cannot_sleep(problem);
	if (!e) return STALLOC_OK; /* nothing was allocated yet */
	result = e->resume(device, tags, n, err, sizeof err);
	return result == STALLOC_OK ? result : stalloc_fail(result, "the memory cannot be resumed: %s", err);
}
