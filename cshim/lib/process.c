/* Process-wide state: the devices, and the guard that detects a forked child. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime.h"

#define PAGE 4096 /* with larger pages the kernel wipes nothing here, and no lock is biased */

static const unsigned char dead;
const unsigned char *_Atomic stalloc_alive = &dead;

/* The kernel wipes them in a forked child: so no lock is biased there, and every request takes the
 * slower path that detects the child. */
struct stalloc_device stalloc_devices[STALLOC_MAX_DEVICES] __attribute__((aligned(PAGE)));
_Static_assert(sizeof stalloc_devices % PAGE == 0, "what follows it would be wiped, too");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char *guard_page;

static void after_fork_in_child(void) {
	if (guard_page) *guard_page = 0;
}

/* MADV_WIPEONFORK covers children that run no fork handlers; the handler covers kernels without
 * MADV_WIPEONFORK. */
static void prepare(void) {
	long size = sysconf(_SC_PAGESIZE);
	unsigned char *page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED) return; /* not alive: every allocation fails, nothing breaks */
	madvise(page, (size_t)size, MADV_WIPEONFORK);
	bool wiped = madvise(stalloc_devices, sizeof stalloc_devices, MADV_WIPEONFORK) == 0;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		stalloc_devices[i].ordinal = i;
		stalloc_lock_prepare(&stalloc_devices[i].lock,
				     wiped ? stalloc_devices[i].bias_slots : NULL);
	}
	*page = 1;
	guard_page = page;
	pthread_atfork(NULL, NULL, after_fork_in_child);
	stalloc_conf_problem();
	stalloc_alive = page; /* last: from here on other threads use the devices */
}

bool stalloc_ready(void) {
	if (STALLOC_LIKELY(*stalloc_alive)) return true;
	pthread_once(&once, prepare);
	return *stalloc_alive != 0;
}

int stalloc_init(void) {
	if (!stalloc_ready())
		return stalloc_fail(
			STALLOC_ERR_DRIVER,
			"stalloc cannot be used in a forked child: CUDA does not survive a "
			"fork; start the child with the spawn method");
	const char *problem = stalloc_conf_problem();
	return problem ? stalloc_fail(STALLOC_ERR_CONF, "%s", problem) : STALLOC_OK;
}

const char *stalloc_version(void) { return STALLOC_VERSION; }
