/* Which region each thread is in, pausing memory and lending it. What a region contains the engine knows. */
#include <stdio.h>

#include "runtime.h"

__thread struct stalloc_regions stalloc_regions;
enum { DEEPEST = sizeof stalloc_regions.pools / sizeof *stalloc_regions.pools };

int stalloc_begin_region(const char *tag) {
	char err[1024] = "";
	/* It stays 0 with plain driver allocations: the program runs on, and pause fails. */
	uint64_t pool = 0;
	if (!tag || !*tag)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "a region has no name: give it one that is not empty");
	if (stalloc_regions.count == DEEPEST)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "regions are nested more than %d deep at \"%s\"", DEEPEST, tag);
	const struct stalloc_engine *e = stalloc_ready() ? stalloc_engine_of_any() : NULL;
	int result = e ? e->region(tag, &pool, err, sizeof err) : STALLOC_OK;
	if (result != STALLOC_OK)
		return stalloc_fail(result, "the region \"%s\" cannot begin: %s", tag, err);
	stalloc_regions.pools[stalloc_regions.count++] = pool;
	stalloc_invalidate_recent();
	return STALLOC_OK;
}

int stalloc_end_region(void) {
	if (stalloc_regions.count == 0)
		return stalloc_fail(STALLOC_ERR_ARGUMENT, "this thread is in no region");
	stalloc_regions.count--;
	return STALLOC_OK;
}

/* Checks the arguments of pause and resume. */
static int check_arguments(int device, const char *const *tags, size_t n) {
	if (device < -1 || device >= STALLOC_MAX_DEVICES)
		return stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	for (size_t i = 0; i < n; i++)
		if (!tags || !tags[i])
			return stalloc_fail(STALLOC_ERR_ARGUMENT, "tag %zu of %zu is none", i + 1,
					    n);
	return STALLOC_OK;
}

/* Why the engine does not serve a device, or (-1) any device; NULL: it does. */
static const char *problem_of(int device) {
	const char *problem = stalloc_engine_problem(device < 0 ? 0 : device);
	for (int i = 1; device < 0 && problem && i < STALLOC_MAX_DEVICES; i++)
		if (!stalloc_engine_problem(i)) problem = NULL;
	return problem;
}

static int cannot_sleep(const char *problem) {
	return stalloc_fail(STALLOC_ERR_ENGINE,
			    "plain driver allocations serve, which cannot sleep: %s", problem);
}

int stalloc_pause(int device, const char *const *tags, size_t n, int backup) {
	char err[4096] = "";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	int result = check_arguments(device, tags, n);
	if (result != STALLOC_OK) return result;
	if (backup != STALLOC_BACKUP_HOST && backup != STALLOC_BACKUP_DISCARD)
		return stalloc_fail(
			STALLOC_ERR_ARGUMENT,
			"%d is no backup: expected STALLOC_BACKUP_HOST or STALLOC_BACKUP_DISCARD",
			backup);
	const char *problem = problem_of(device);
	if (problem) return cannot_sleep(problem);
	if (!e) return STALLOC_OK; /* nothing was allocated yet */
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) /* frees may be waiting */
		if (device < 0 || i == device) stalloc_drain_now(&stalloc_devices[i]);
	result = e->pause(device, tags, n, backup == STALLOC_BACKUP_HOST, err, sizeof err);
	if (result == STALLOC_OK) return result;
	return stalloc_fail(result, "the memory cannot be paused: %s", err);
}

/* Closed devices are resumed, too. */
int stalloc_resume(int device, const char *const *tags, size_t n) {
	char err[4096] = "";
	const struct stalloc_engine *e = stalloc_engine_if_open();
	int result = check_arguments(device, tags, n);
	if (result != STALLOC_OK) return result;
	const char *problem = e ? NULL : problem_of(device);
	if (problem) return cannot_sleep(problem);
	if (!e) return STALLOC_OK; /* nothing was allocated yet */
	result = e->resume(device, tags, n, err, sizeof err);
	if (result == STALLOC_OK) return result;
	return stalloc_fail(result, "the memory cannot be resumed: %s", err);
}

/* The engine for a call about a region of one device; NULL: the result says what to return. */
static const struct stalloc_engine *for_region(int device, const char *tag, int *result) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	*result = check_arguments(device, &tag, 1);
	if (*result == STALLOC_OK && device < 0)
		*result = stalloc_fail(STALLOC_ERR_ARGUMENT, "there is no device %d", device);
	if (*result != STALLOC_OK) return NULL;
	const char *problem = stalloc_engine_problem(device);
	if (problem) *result = cannot_sleep(problem);
	if (!problem && e) stalloc_drain_now(&stalloc_devices[device]); /* frees may be waiting */
	return problem ? NULL : e; /* none: nothing was allocated yet */
}

static int told(int result, const char *what, const char *tag, const char *err) {
	if (result == STALLOC_OK) return result;
	return stalloc_fail(result, "the region \"%s\" cannot be %s: %s", tag, what, err);
}

int stalloc_begin_awake(int device, const char *tag, void *stream) {
	char err[1024] = "";
	int result;
	const struct stalloc_engine *e = for_region(device, tag, &result);
	if (!e) return result;
	result = e->begin_awake(device, tag, (uintptr_t)stream, err, sizeof err);
	return told(result, "used", tag, err);
}

int stalloc_end_awake(int device, const char *tag, void *stream, int how) {
	char err[1024] = "";
	int result;
	if (how < 0 || how > (STALLOC_CHANGED | STALLOC_ALL_LEAVES))
		return stalloc_fail(STALLOC_ERR_ARGUMENT, "%d is no sum of STALLOC_CHANGED and "
							  "STALLOC_ALL_LEAVES", how);
	const struct stalloc_engine *e = for_region(device, tag, &result);
	if (!e) return result;
	result = e->end_awake(device, tag, (uintptr_t)stream, how, err, sizeof err);
	return told(result, "lent", tag, err);
}

int stalloc_prefetch(int device, const char *tag) {
	char err[1024] = "";
	int result;
	const struct stalloc_engine *e = for_region(device, tag, &result);
	if (!e) return result;
	return told(e->prefetch(device, tag, err, sizeof err), "fetched", tag, err);
}
