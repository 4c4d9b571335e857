/* The shared page: see page.h. */
#include "page.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

enum { TOLD = sizeof(struct stalloc_stats) / sizeof(uint64_t) };
_Static_assert((int)TOLD <= (int)STALLOC_PAGE_COUNTERS, "the page has no room for all counters: make it larger, and its version");

#define SECOND 1000000000u

static struct stalloc_page *page; /* NULL: there is none */
static char path[64];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The 22nd field of /proc/self/stat. The second one, the command's name, may hold
 * anything, blanks too, and ends with the last parenthesis. */
static uint64_t start_of_process(void) {
	char text[1024];
	unsigned long long start = 0;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
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
	if (page && *stalloc_alive) unlink(path);
}

static void make(void) {
	const char *set = stalloc_conf("page");
	struct stat where = {0};
	if (set && !strcmp(set, "off")) return;
	uint64_t start = start_of_process();
	snprintf(path, sizeof path, STALLOC_PAGE_FOLDER "/stalloc-%d-%llu", (int)getpid(), (unsigned long long)start);
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) return;
	/* Without memory behind every byte the first write to one would end the process. */
	void *map = MAP_FAILED;
	if (posix_fallocate(fd, 0, sizeof *page) == 0)
		map = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map == MAP_FAILED) {
		unlink(path);
		return;
	}
	stat("/proc/self/ns/pid", &where);
	struct stalloc_page *p = map;
	p->version = STALLOC_PAGE_VERSION;
	p->pid = (uint32_t)getpid();
	p->start = start;
	p->processes = (uint64_t)where.st_ino;
	p->devices = STALLOC_PAGE_DEVICES;
	p->counters = TOLD;
	atomic_thread_fence(memory_order_release);
	memcpy(p->magic, STALLOC_PAGE_MAGIC, sizeof p->magic); /* last: from here on it is a page */
	page = p;
	atexit(take_away);
}

static struct stalloc_page_device *of(int device) {
	if (device < 0 || device >= STALLOC_PAGE_DEVICES || !*stalloc_alive) return NULL;
	pthread_once(&once, make);
	return page ? &page->device[device] : NULL;
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
	uint64_t counters[TOLD], at = now_ns();
	if (!d) return;
	uint64_t sequence = STALLOC_RELAXED(d->sequence);
	if (sequence & 1 || !atomic_compare_exchange_strong_explicit(&d->sequence, &sequence, sequence + 1, memory_order_acquire,
								     memory_order_relaxed))
		return; /* another thread tells what is nearly the same */
	atomic_thread_fence(memory_order_release);
	memcpy(counters, s, sizeof counters);
	bool older = STALLOC_RELAXED(d->now.at) && at - STALLOC_RELAXED(d->before.at) >= 2 * (uint64_t)SECOND;
	if (older) {
		STALLOC_PUT(d->before.at, STALLOC_RELAXED(d->now.at));
		for (int i = 0; i < TOLD; i++) STALLOC_PUT(d->before.counters[i], STALLOC_RELAXED(d->now.counters[i]));
	}
	STALLOC_PUT(d->now.at, at);
	for (int i = 0; i < TOLD; i++) STALLOC_PUT(d->now.counters[i], counters[i]);
	atomic_store_explicit(&d->sequence, sequence + 2, memory_order_release);
}
