/* Driver errors on every single call. Whatever fails: the process survives, no
 * block is overwritten, a request is served or refused with a text, and once
 * the driver works again so does allocation.
 *
 * faults       every function in a process of its own, failing at its first,
 *              second, ... call from the start of the process on; then, in this
 *              process, every call of a running program
 * faults FUNCTION N CODE   one of those processes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../cuda/driver.h"
#include "work.h"

static const char *const functions[] = {
#define NAME(field, symbol, parameters) #field,
	STALLOC_DRIVER_CALLS(NAME)
#undef NAME
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, UNUSED = 42, DEEP = 400 };

/* A short run that makes the engine create, map, unmap, fence and release: two
 * streams, one program, everything given back at the end. Refusals are fine. */
static uint64_t run(uint64_t seed, int steps)
{
	struct program program = program_make(seed, 16, (size_t)8 << 20);
	uint64_t refused = 0;
	for (int step = 0; step < steps; step++)
		for (int s = 0; s < 2; s++) {
			struct player p = {.program = &program,
					   .stream = (void *)(uintptr_t)(0x1000 * s),
					   .other = (void *)(uintptr_t)(0x1000 * (1 - s)),
					   .rates = {.shared = 150},
					   .random = seed + (uint64_t)step,
					   .id = (uint64_t)s + 1};
			player_first_half(&p);
			player_second_half(&p);
			player_end(&p);
			refused += p.failed;
			if (s == 1 && stalloc_step(-1) != STALLOC_OK)
				CHECK(*stalloc_last_error(), "an error without a text");
		}
	program_drop(&program);
	stalloc_empty_cache();
	return refused;
}

/* The driver works: so must we. */
static void recovered(const char *after)
{
	struct block b = {.size = 3 << 20, .tag = 9};
	fake(fail)("");
	b.at = stalloc_malloc(b.size, 0, NULL);
	CHECK(b.at, "after %s: %s", after, stalloc_last_error());
	kit_fill(b.at, b.size, b.tag);
	CHECK(run(11, 2) == 0, "after %s: %s", after, stalloc_last_error());
	block_free(&b);
	struct stalloc_stats s = kit_stats();
	CHECK(s.allocated == 0, "after %s: %llu bytes are counted as live", after,
	      (ull)s.allocated);
}

static int one(const char *function, const char *nth, const char *code)
{
	char rule[128], what[160];
	alarm(120);
	snprintf(rule, sizeof rule, "%s:%s:%s", function, nth, code);
	snprintf(what, sizeof what, "a failure of %s", rule);
	CHECK(fake(fail)(rule) == 0, "the fake driver refuses %s", rule);
	if (run(3, 4) > 0) CHECK(*stalloc_last_error(), "%s: refused without a text", what);
	bool used = fake(count)(function) >= strtol(nth, NULL, 10);
	recovered(what);
	return used ? 0 : UNUSED;
}

/* From the start: the calls that open the driver, the device and the window. */
static int from_the_start(char *self, const char *function)
{
	char nth[16];
	for (int n = 1;; n++) {
		snprintf(nth, sizeof nth, "%d", n);
		int status;
		pid_t pid = fork();
		if (pid == 0) {
			if (!freopen("/dev/null", "w", stderr)) _exit(126);
			execl(self, self, function, nth, n % 2 ? "999" : "2", (char *)NULL);
			_exit(127);
		}
		CHECK(pid > 0 && waitpid(pid, &status, 0) == pid, "cannot fork");
		CHECK(WIFEXITED(status) &&
			      (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == UNUSED),
		      "with %s failing at call %d the process ended with status %#x; run: %s %s %d "
		      "%s",
		      function, n, status, self, function, n, n % 2 ? "999" : "2");
		kit_progress();
		if (WEXITSTATUS(status) == UNUSED) return n - 1;
		if (n == 3) return n;
	}
}

/* Every call of a program that runs already. */
static int on_the_way(const char *function)
{
	char rule[128];
	int n = 1, codes[] = {2, 999, 1};
	for (; n <= DEEP; n++) {
		long before = fake(count)(function);
		snprintf(rule, sizeof rule, "%s:%d:%d", function, n, codes[n % 3]);
		CHECK(fake(fail)(rule) == 0, "the fake driver refuses %s", rule);
		if (run(3, 1) > 0) CHECK(*stalloc_last_error(), "%s: refused without a text", rule);
		if (fake(count)(function) - before < n) break;
	}
	recovered(function);
	return n - 1;
}

int main(int count, char **arguments)
{
	setenv("STALLOC_TEST_LARGEST", "5242880", 0);
	setenv("FAKECUDA_CAPACITY", "1073741824", 0);
	if (count == 4) return one(arguments[1], arguments[2], arguments[3]);
	kit_seed();
	kit_watchdog(60);
	int processes = 0, calls = 0;
	for (int f = 0; f < FUNCTIONS; f++) processes += from_the_start(arguments[0], functions[f]);
	recovered("nothing");
	for (int f = 0; f < FUNCTIONS; f++) calls += on_the_way(functions[f]);
	printf("%d functions: %d failures while starting, %d on the way\n", FUNCTIONS, processes,
	       calls);
	CHECK(processes > 10 && calls > 50, "too few failures were provoked");
	return 0;
}
