/* What else the interface has: memory given back, limits, statistics, plans in files,
 * invalid calls, forks. Files lie in the campaign's scratch folder, never elsewhere. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

enum { FILES = 3 };

const char *scratch_path(char *path, size_t n, int device, uint64_t number)
{
	const char *folder = getenv("CAMPAIGN_SCRATCH");
	CHECK(folder && strstr(folder, "/stalloc-campaign-"), "no scratch folder");
	snprintf(path, n, "%s/%d.%d.plan", folder, device, (int)(number % FILES));
	return path;
}

static void query(struct worker *w, int device)
{
	char text[4000];
	struct stalloc_stats s;
	int n = stalloc_explain(device, text, kit_below(&w->random, sizeof text));
	CHECK(n > 0, "no explanation");
	OK(stalloc_get_stats(device, &s, sizeof s));
	CHECK(s.requested <= s.allocated && s.allocated <= s.active &&
		      s.allocated <= s.peak_allocated,
	      "%llu requested, %llu allocated, %llu active", (ull)s.requested,
	      (ull)s.allocated, (ull)s.active);
	if (kit_below(&w->random, 8) == 0) OK(stalloc_reset_peak(device));
}

/* Neither has an effect but an error. */
static void invalid_calls(struct worker *w, int device)
{
	static const size_t huge[] = {(size_t)1 << 40,	      (size_t)1 << 63, (size_t)-1,
				      (size_t)-511,	      (size_t)-512,    (size_t)1 << 62,
				      ((size_t)1 << 62) - 511};
	char on_stack[64];
	size_t size = huge[kit_below(&w->random, sizeof huge / sizeof *huge)];
	CHECK(!stalloc_malloc(size, device, NULL), "%zu bytes were given", size);
	CHECK(!stalloc_malloc(0, device, NULL) && !stalloc_malloc(1, -1, NULL) &&
		      !stalloc_malloc(1, 64, NULL),
	      "a block of nothing");
	CHECK(stalloc_step(-2) == STALLOC_ERR_ARGUMENT && stalloc_step(64) == STALLOC_ERR_ARGUMENT,
	      "a step of no device");
	stalloc_base((void *)(uintptr_t)kit_random(&w->random), NULL);
	stalloc_record_stream((void *)(uintptr_t)kit_random(&w->random), NULL);
	stalloc_release_pool(device, kit_random(&w->random), 1);
	stalloc_end_pool(device, kit_random(&w->random), 1);
	if (!run.wrong_frees) return;
	stalloc_free(on_stack, 0, device, NULL);
	stalloc_free((void *)8, 0, 99, (void *)1);
}

static void plan_file(struct worker *w, int device)
{
	char path[256];
	scratch_path(path, sizeof path, device, kit_random(&w->random));
	int result = stalloc_save_plan(device, path);
	CHECK(result == STALLOC_OK || *stalloc_last_error(), "no plan was saved, and nothing said");
	w->did.files += result == STALLOC_OK;
	if (stalloc_load_plan(device, path) != STALLOC_OK)
		CHECK(*stalloc_last_error(), "no plan was loaded, and nothing said");
}

/* An earlier run's plan, at times damaged: it serves or is refused. */
void load_earlier_plan(struct worker *w)
{
	for (int device = 0; device < run.devices; device++) {
		char path[256];
		scratch_path(path, sizeof path, (int)kit_below(&w->random, DEVICES),
			     kit_random(&w->random));
		int f = open(path, O_RDWR);
		if (f < 0) continue;
		off_t size = lseek(f, 0, SEEK_END);
		for (uint64_t n = kit_below(&w->random, 4); n > 1 && size > 0; n--) {
			unsigned char byte = (unsigned char)kit_random(&w->random);
			CHECK(pwrite(f, &byte, 1, (off_t)kit_below(&w->random, (uint64_t)size)) ==
				      1,
			      "no scratch file");
		}
		close(f);
		if (stalloc_load_plan(device, path) != STALLOC_OK)
			CHECK(*stalloc_last_error(), "a refusal without a text");
	}
}

/* Only what is safe after a fork of a process with threads. */
static void child(const struct tracked *p)
{
	struct stalloc_stats s;
	char path[256];
	alarm(60);
	if (stalloc_malloc(4096, 0, NULL)) _exit(1);
	stalloc_free(p->at, 0, p->device, p->stream);
	stalloc_record_stream(p->at, NULL);
	if (stalloc_base(p->at, NULL)) _exit(2);
	stalloc_step(-1);
	stalloc_empty_cache();
	stalloc_set_memory_fraction(0.5, 0);
	stalloc_begin_pool(0, 1, 1, NULL);
	stalloc_end_pool(0, 1, 1);
	stalloc_release_pool(0, 1, 1);
	stalloc_close(-1);
	scratch_path(path, sizeof path, 0, 0);
	if (stalloc_save_plan(0, path) == STALLOC_OK || stalloc_load_plan(0, path) == STALLOC_OK)
		_exit(3);
	if (stalloc_get_stats(0, &s, sizeof s) != STALLOC_OK) _exit(4);
	_exit(0);
}

static void fork_child(struct worker *w, int device)
{
	struct tracked p;
	int status;
	if (!tracked_malloc(w, &p, random_size(w), device, NULL)) return;
	pid_t pid = fork();
	CHECK(pid >= 0, "cannot fork");
	if (pid == 0) child(&p);
	CHECK(waitpid(pid, &status, 0) == pid, "lost a child");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child ended with %#x",
	      (unsigned)status);
	tracked_free(w, &p);
	w->did.forks++;
}

void other_call(struct worker *w)
{
	int device = (int)kit_below(&w->random, (uint64_t)run.devices);
	uint64_t dice = kit_below(&w->random, 100);
	if (dice < 30)
		query(w, device);
	else if (dice < 45)
		stalloc_empty_cache();
	else if (dice < 60)
		invalid_calls(w, device);
	else if (dice < 75)
		plan_file(w, device);
	else if (dice < 90 && run.limits)
		stalloc_set_memory_fraction(0.2 + (double)kit_below(&w->random, 900) / 1000,
					    device);
	else if (dice < 93 && run.forks)
		fork_child(w, device);
	else
		CHECK(stalloc_step(run.noisy ? -1 : device) == STALLOC_OK || run.faults, "%s",
		      stalloc_last_error());
}
