/* The shared page: what `stalloc top` and the Prometheus endpoint read.
 *
 * A process has a file in /dev/shm, stalloc-<pid>-<start>, that holds struct
 * stalloc_page. It is written where the statistics are known anyway: at a step
 * boundary, at most ten times a second, and when the program asks for them. The
 * writer takes no lock and waits for nobody; whoever reads is not known to it, and
 * what anybody does to the file is no harm to the process. A reader believes a page
 * that belongs to the user of the process, and is named as it says.
 *
 * Each device has a sequence number: odd while it is written, another one
 * afterwards. A reader takes the number, the figures and the number again, and
 * begins anew unless both are the same and even. Two threads that would write the
 * same device at once are in each other's way, so the later one leaves it at that.
 *
 * The counters are those of struct stalloc_stats, in its order: a field that is
 * appended there is on the page without more ado. live/page reads it in Go.
 */
#ifndef STALLOC_PAGE_H
#define STALLOC_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../stalloc.h"

#define STALLOC_PAGE_MAGIC "stalloc" /* with the NUL behind it: eight bytes */
#define STALLOC_PAGE_FOLDER "/dev/shm"

enum {
	STALLOC_PAGE_VERSION = 1,
	STALLOC_PAGE_DEVICES = 16,  /* what lies behind has no place */
	STALLOC_PAGE_COUNTERS = 48, /* room for those of struct stalloc_stats */
};

/* The counters at a moment. */
struct stalloc_page_sample {
	_Atomic uint64_t at; /* nanoseconds since 1970, 0: none */
	_Atomic uint64_t counters[STALLOC_PAGE_COUNTERS];
};

struct stalloc_page_device {
	_Atomic uint64_t sequence; /* 0: never written */
	/* now, and a second or two earlier, so that one look tells rates. */
	struct stalloc_page_sample now, before;
};

struct stalloc_page {
	char magic[8];
	uint32_t version;
	uint32_t pid;       /* as the process itself knows it */
	uint64_t start;     /* when it started, as in /proc/<pid>/stat: numbers are used again */
	uint64_t processes; /* the inode of /proc/<pid>/ns/pid: where the number counts */
	uint32_t devices;
	uint32_t counters; /* of struct stalloc_stats that are told */
	struct stalloc_page_device device[STALLOC_PAGE_DEVICES];
};

/* Tells the page what a device's statistics are. In a forked child, where the page
 * cannot be made, or is off (STALLOC_CONF=page:off), it does nothing. */
void stalloc_page_put(int device, const struct stalloc_stats *s);

/* Whether it is time again to tell what a device does: a tenth of a second has
 * passed. For a step boundary, where asking for the statistics is not free. */
bool stalloc_page_due(int device);

#endif
