/* The shared page: see page.h. */
#include "page.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

enum { COUNTERS = sizeof(struct stalloc_stats) / sizeof(uint64_t) };
_Static_assert((int)COUNTERS <= (int)STALLOC_PAGE_COUNTERS,
	       "the page has no room for all counters: make it larger, and its version");

#define SECOND 1000000000u

/* The process's copy of the file. The file is opened again for each write: a mapped file that
 * somebody truncates would kill the process, and an open descriptor might be closed by the program
 * and its number reused for another file. */
static struct stalloc_page page;
static bool made;
static struct stat file; /* identifies it */
static char path[64];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Reads the 22nd field. The second field, the command's name, may contain anything, blanks too, and
 * ends with the last parenthesis. */
uint64_t stalloc_process_start(long pid) {
	char text[1024];
	unsigned long long start = 0;
	snprintf(text, sizeof text, "/proc/%ld/stat", pid);
	int fd = open(text, O_RDONLY | O_CLOEXEC);
	if (fd < 0) return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0) return 0;
	text[n] = '\0';
	char *at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
	return at && sscanf(at, "%llu", &start) == 1 ? start : 0;
}

static void take_away(void) {
	if (*stalloc_alive) unlink(path);
}

/* Writes part of the page to the same offset of the file. */
static bool put(int fd, const void *from, size_t n, const void *at) {
	struct stalloc_sigxfsz held;
	stalloc_block_sigxfsz(&held);
	bool all = pwrite(fd, from, n, (const char *)at - (const char *)&page) == (ssize_t)n;
	stalloc_restore_sigxfsz(&held);
	return all;
}

static void make(void) {
	const char *set = stalloc_conf("page");
	struct stat where = {0};
	if (set && !strcmp(set, "off")) return;
	stat("/proc/self/ns/pid", &where);
	page = (struct stalloc_page){
		.magic = STALLOC_PAGE_MAGIC,
		.version = STALLOC_PAGE_VERSION,
		.pid = (uint32_t)getpid(),
		.start = stalloc_process_start(getpid()),
		.processes = (uint64_t)where.st_ino,
		.devices = STALLOC_PAGE_DEVICES,
		.counters = COUNTERS,
	};
	snprintf(path, sizeof path, STALLOC_PAGE_FOLDER "/stalloc-%d-%llu", (int)page.pid,
		 (unsigned long long)page.start);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) return;
	/* All of it at once, so that the memory is taken now. */
	made = fchmod(fd, 0600) == 0 && fstat(fd, &file) == 0 && put(fd, &page, sizeof page, &page);
	close(fd);
	if (made)
		atexit(take_away);
	else
		unlink(path);
}

/* Opens the file; negative: it is gone or was replaced. */
static int open_page(void) {
	struct stat now;
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd >= 0 &&
	    (fstat(fd, &now) != 0 || now.st_dev != file.st_dev || now.st_ino != file.st_ino))
		close(fd), fd = -1;
	return fd;
}

static struct stalloc_page_device *of(int device) {
	if (device < 0 || device >= STALLOC_PAGE_DEVICES || !*stalloc_alive) return NULL;
	pthread_once(&once, make);
	return made ? &page.device[device] : NULL;
}

static uint64_t now_ns(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

bool stalloc_page_due(int device) {
	struct stalloc_page_device *d = of(device);
	return d && now_ns() - STALLOC_RELAXED(d->now.at) >= SECOND / 10;
}

void stalloc_page_put(int device, const struct stalloc_stats *s) {
	struct stalloc_page_device *d = of(device);
	uint64_t counters[COUNTERS], at = now_ns();
	if (!d) return;
	uint64_t sequence = STALLOC_RELAXED(d->sequence);
	if (sequence & 1 ||
	    !atomic_compare_exchange_strong_explicit(&d->sequence, &sequence, sequence + 1,
						     memory_order_acquire, memory_order_relaxed))
		return; /* another thread is writing nearly the same */
	memcpy(counters, s, sizeof counters);
	bool older = STALLOC_RELAXED(d->now.at) &&
		     at - STALLOC_RELAXED(d->before.at) >= 2 * (uint64_t)SECOND;
	if (older) {
		STALLOC_PUT(d->before.at, STALLOC_RELAXED(d->now.at));
		for (int i = 0; i < COUNTERS; i++)
			STALLOC_PUT(d->before.counters[i], STALLOC_RELAXED(d->now.counters[i]));
	}
	STALLOC_PUT(d->now.at, at);
	for (int i = 0; i < COUNTERS; i++) STALLOC_PUT(d->now.counters[i], counters[i]);
	uint64_t busy = sequence + 1, done = sequence + 2;
	int fd = open_page();
	if (fd >= 0) {
		/* One call after the other, so that the writes are seen in this order. */
		const char *samples = (const char *)d + sizeof d->sequence;
		if (put(fd, &busy, sizeof busy, d) &&
		    put(fd, samples, sizeof *d - sizeof d->sequence, samples))
			put(fd, &done, sizeof done, d);
		close(fd);
	}
	atomic_store_explicit(&d->sequence, done, memory_order_release);
}
