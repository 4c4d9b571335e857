/* Children forked from a process whose threads allocate: every call returns at
 * once, allocation gives NULL, and the parent notices nothing. */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

enum { THREADS = 3, CHILDREN = 20 };

static _Atomic bool over;
static struct program program;

static void *play(void *argument)
{
	struct player *p = argument;
	while (!atomic_load(&over)) {
		player_first_half(p);
		player_second_half(p);
	}
	player_end(p);
	return NULL;
}

/* As where pages are larger than 4 KiB: the devices are not wiped in a child. */
static bool large_pages;

int madvise(void *at, size_t size, int advice)
{
	return large_pages && advice == MADV_WIPEONFORK && size > (size_t)sysconf(_SC_PAGESIZE)
		       ? -1
		       : (int)syscall(SYS_madvise, at, size, advice);
}

#define CHILD_CHECK(condition, code) \
	do {                         \
		if (!(condition)) _exit(code); \
	} while (0)

/* Only what is safe after a fork of a process with threads. */
static void child(void *block, int number)
{
	struct stalloc_stats s;
	char text[256];
	int quiet = open("/dev/null", O_WRONLY);
	dup2(quiet, 2);
	alarm(120);
	for (int i = 0; i < 100; i++) {
		void *p = stalloc_malloc(1 << 20, 0, (void *)(uintptr_t)(0x1000 * (i % THREADS)));
		CHILD_CHECK(!p, 2);
		stalloc_free(p, 0, 0, NULL);
	}
	CHILD_CHECK(strstr(stalloc_last_error(), "fork"), 3);
	stalloc_free(block, 0, 0, NULL); /* the parent's */
	stalloc_record_stream(block, (void *)0x1000);
	CHILD_CHECK(!stalloc_base(block, NULL), 4);
	stalloc_empty_cache();
	stalloc_set_memory_fraction(0.5, 0);
	stalloc_begin_pool(0, 1, 2, NULL);
	stalloc_end_pool(0, 1, 2);
	stalloc_release_pool(0, 1, 2);
	stalloc_lasting_stream(0, (void *)0x9000);
	CHILD_CHECK(stalloc_step(-1) == STALLOC_OK, 5);
	CHILD_CHECK(stalloc_init() != STALLOC_OK, 6);
	CHILD_CHECK(stalloc_get_stats(0, &s, sizeof s) == STALLOC_OK, 7);
	CHILD_CHECK(stalloc_reset_peak(0) == STALLOC_OK, 8);
	CHILD_CHECK(stalloc_explain(0, text, sizeof text) > 0, 9);
	if (number % 2) _exit(0);
	exit(0);
}

static _Atomic int within; /* 1: a call of the driver's is under way, with the device's lock; 2: it
			      may go on */

static void stay(int device, void *at, size_t size, int change)
{
	(void)device, (void)at, (void)size, (void)change;
	if (atomic_load(&within) != 0) return;
	atomic_store(&within, 1);
	while (atomic_load(&within) == 1) kit_sleep_ms(1);
}

static void *grow(void *argument)
{
	stalloc_free(stalloc_malloc(64 << 20, 0, NULL), 0, 0, NULL);
	return argument;
}

static void fork_once(void)
{
	int status;
	pid_t pid = fork();
	CHECK(pid >= 0, "cannot fork");
	if (pid == 0) child(NULL, 1);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child ended by signal %d",
	      WTERMSIG(status));
	CHECK(WEXITSTATUS(status) == 0, "the child failed check %d", WEXITSTATUS(status));
}

static _Atomic int noting; /* 1: whoever notes a new stream, with the lock of streams, stays there;
			      2: it does */

void *aligned_alloc(size_t alignment, size_t size)
{
	void *at = NULL;
	if (atomic_load(&noting) == 1) {
		atomic_store(&noting, 2);
		while (atomic_load(&noting) == 2) kit_sleep_ms(1);
	}
	return posix_memalign(&at, alignment, size) == 0 ? at : NULL;
}

static void *note(void *stream)
{
	stalloc_lasting_stream(0, stream);
	return NULL;
}

static void forked_while_noting(void)
{
	atomic_store(&noting, 1);
	pthread_t thread = kit_thread(note, (void *)0x8000);
	while (atomic_load(&noting) == 1) kit_sleep_ms(1);
	fork_once();
	atomic_store(&noting, 0);
	pthread_join(thread, NULL);
}

/* A child whose parent was in Go at that moment, with a deferred free. */
static void forked_within(void)
{
	void *block = kit_get(1 << 20, 0, NULL);
	stalloc_set_tracker(stay);
	pthread_t thread = kit_thread(grow, NULL);
	while (atomic_load(&within) == 0) kit_sleep_ms(1);
	stalloc_free(block, 0, 0, NULL);
	fork_once();
	atomic_store(&within, 2);
	pthread_join(thread, NULL);
	stalloc_set_tracker(NULL);
}

int main(int argc, char **argv)
{
	large_pages = argc > 1 && strcmp(argv[1], "large-pages") == 0;
	uint64_t seed = kit_seed();
	pthread_t threads[THREADS];
	struct player players[THREADS];
	setenv("STALLOC_TEST_LARGEST", "1048576", 0);
	kit_watchdog(60);
	forked_within();
	forked_while_noting();
	program = program_make(kit_random(&seed), 30, (size_t)16 << 20);
	for (int i = 0; i < THREADS; i++) {
		players[i] =
			(struct player){.program = &program,
					.stream = (void *)(uintptr_t)(0x1000 * i),
					.other = (void *)(uintptr_t)(0x1000 * ((i + 1) % THREADS)),
					.rates = {.noise = 5, .shared = 5},
					.random = kit_random(&seed),
					.id = (uint64_t)i + 1};
		threads[i] = kit_thread(play, &players[i]);
	}
	struct block mine = block_get(3 << 20, 0, NULL, 77);
	for (int n = 0; n < CHILDREN; n++) {
		int status;
		pid_t pid = fork();
		CHECK(pid >= 0, "cannot fork");
		if (pid == 0) child(mine.at, n);
		for (int i = 0; i < 5; i++) OK(stalloc_step(-1));
		CHECK(waitpid(pid, &status, 0) == pid, "lost a child");
		CHECK(WIFEXITED(status), "child %d ended by signal %d", n, WTERMSIG(status));
		CHECK(WEXITSTATUS(status) == 0, "child %d failed check %d", n, WEXITSTATUS(status));
	}
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		CHECK(players[i].failed == 0, "%llu requests of the parent were refused",
		      (ull)players[i].failed);
	}
	block_free(&mine);
	program_drop(&program);
	OK(stalloc_step(-1));
	CHECK(kit_stats().allocated == 0, "the parent lost count");
	printf("%d children, %llu requests of the parent meanwhile\n", CHILDREN,
	       (ull)kit_stats().requests);
	return 0;
}
