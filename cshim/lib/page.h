/* The shared page: what `stalloc top` and the Prometheus endpoint read.
 *
 * A process has a file in /dev/shm, stalloc-<pid>-<start>, that holds struct stalloc_page. It is
 * written when the statistics are at hand: at step boundaries, at most ten times a second, and when
 * the program asks for them. The writer takes no lock and waits for nobody. It does not know its
 * readers, and nothing that anyone does to the file can harm the process. A reader trusts a page
 * that belongs to the user of the process and whose name matches its content.
 *
 * Each device has a sequence lock: a number that is odd during a write and increases with each. A
 * reader reads the number, the figures and the number again, and retries unless both numbers are
 * equal and even. If two threads write one device at once, the later one skips its update.
 *
 * The counters are those of struct stalloc_stats, in its order, so a field that is appended there
 * appears on the page by itself. live/page reads the page in Go.
 */
#ifndef STALLOC_PAGE_H
#define STALLOC_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../stalloc.h"

#define STALLOC_PAGE_MAGIC "stalloc" /* eight bytes with the final NUL */
#define STALLOC_PAGE_FOLDER "/dev/shm"

enum {
	STALLOC_PAGE_VERSION = 1,
	STALLOC_PAGE_DEVICES = 16,  /* higher ordinals are not on the page */
	STALLOC_PAGE_COUNTERS = 48, /* room for the fields of struct stalloc_stats */
};

/* The counters at one moment. */
struct stalloc_page_sample {
	_Atomic uint64_t at; /* nanoseconds since 1970, 0: none */
	_Atomic uint64_t counters[STALLOC_PAGE_COUNTERS];
};

struct stalloc_page_device {
	_Atomic uint64_t sequence; /* 0: never written */
	/* Now, and a second or two earlier: one read gives rates. */
	struct stalloc_page_sample now, before;
};

struct stalloc_page {
	char magic[8];
	uint32_t version;
	uint32_t pid;       /* as the process itself knows it */
	uint64_t start;     /* its start time, as in /proc/<pid>/stat: pids are reused */
	uint64_t processes; /* the inode of /proc/<pid>/ns/pid: the namespace of the pid */
	uint32_t devices;
	uint32_t counters; /* fields of struct stalloc_stats that are written */
	struct stalloc_page_device device[STALLOC_PAGE_DEVICES];
};

/* Writes a device's statistics to the page. It does nothing in a forked child, if the page cannot
 * be created, and with STALLOC_CONF=page:off. */
void stalloc_page_put(int device, const struct stalloc_stats *s);

/* Whether a device's last write is at least a tenth of a second old. For step boundaries, where
 * collecting the statistics is not free. */
bool stalloc_page_due(int device);

#endif
