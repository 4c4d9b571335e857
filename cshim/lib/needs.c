/* What Go's runtime needs. It kills the process if threads, file descriptors or addresses run out
 * while it starts, and if a thread's alternate signal stack is too small for its signal handlers.
 * These functions check before Go runs, so that stalloc can return an error instead. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

enum {
	THREADS = 12, /* four run goroutines, some block in the kernel, others are Go's own */
	FILES = 8,    /* for its poller, and for one file at a time */
	ADDRESSES = 1 << 30, /* reserved for its tables, mostly */
	SMALL = 16 << 10,    /* a signal stack below this is replaced */
	LARGE = 64 << 10,    /* by one of this size */
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *pass(void *unused) {
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	return unused;
}

/* How many more threads can run at once. */
static int try_threads(int *error) {
	pthread_t threads[THREADS];
	int n = 0;
	pthread_mutex_lock(&gate);
	while (n < THREADS && (*error = pthread_create(&threads[n], NULL, pass, NULL)) == 0) n++;
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
	return n;
}

static int try_files(int *error) {
	int files[FILES], n = 0;
	while (n < FILES && (files[n] = eventfd(0, EFD_CLOEXEC)) >= 0) n++;
	*error = errno;
	for (int i = 0; i < n; i++) close(files[i]);
	return n;
}

bool stalloc_needs_met(char *err, size_t size) {
	int error = 0, n = try_files(&error);
	void *addresses = mmap(NULL, ADDRESSES, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (addresses == MAP_FAILED) {
		snprintf(err, size,
			 "the engine needs %d MiB of addresses to start and cannot have them (%s): "
			 "raise ulimit -v",
			 ADDRESSES >> 20, strerror(errno));
		return false;
	}
	munmap(addresses, ADDRESSES);
	if (n < FILES) {
		snprintf(err, size,
			 "the engine needs %d file descriptors to start and %d can be had (%s): "
			 "raise ulimit -n, or close some",
			 FILES, n, strerror(error));
		return false;
	}
	if ((n = try_threads(&error)) < THREADS) {
		snprintf(err, size,
			 "the engine needs %d threads to start and %d can be had (%s): raise "
			 "ulimit -u, or the container's limit of processes",
			 THREADS, n, strerror(error));
		return false;
	}
	return true;
}

static __thread bool checked;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Restores the signal stack that ours replaced; ours begins with its description. */
static void put_back(void *larger) {
	stack_t now;
	if (sigaltstack(NULL, &now) == 0 && now.ss_sp == larger) sigaltstack(larger, NULL);
	munmap(larger, LARGE);
}

static void make_key(void) { pthread_key_create(&key, put_back); }

/* Go's signal handlers run on the alternate stack of the interrupted thread. One that is too small
 * is replaced by a larger one until the thread ends, which does its own handlers no harm. */
bool stalloc_thread_fits(void) {
	stack_t now;
	if (STALLOC_LIKELY(checked)) return true;
	if (sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0 &&
	    now.ss_size < SMALL) {
		stack_t *mine = mmap(NULL, LARGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mine == MAP_FAILED) return false;
		*mine = now;
		if (sigaltstack(&(stack_t){.ss_sp = mine, .ss_size = LARGE}, NULL) != 0) {
			munmap(mine, LARGE);
			return false;
		}
		pthread_once(&once, make_key);
		pthread_setspecific(key, mine);
	}
	checked = true;
	return true;
}
