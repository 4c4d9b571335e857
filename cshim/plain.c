/* Plain driver allocations: what serves when the engine cannot. Slow, but a
 * training job survives. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

static struct stalloc_driver driver;
static bool driver_open;
static char driver_problem[512];
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;

static void open_driver(void) {
	driver_open = stalloc_driver_open(stalloc_conf("driver"), &driver, driver_problem, sizeof driver_problem) == 0;
}

const struct stalloc_driver *stalloc_the_driver(char *err, size_t n) {
	pthread_once(&driver_once, open_driver);
	if (!driver_open) snprintf(err, n, "%s", driver_problem);
	return driver_open ? &driver : NULL;
}

/* The blocks, chained by a hash of the address. */
struct block {
	struct block *next;
	uint64_t addr, size, asked;
	int device;
};
enum { BUCKETS = 4096 };
static struct block *buckets[BUCKETS];
static struct stalloc_plain_counts counts[STALLOC_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stalloc_cu_context contexts[STALLOC_MAX_DEVICES];

static struct block **bucket(uint64_t addr) { return &buckets[(addr >> 9) * 0x9E3779B97F4A7C15u >> 52]; }

/* Makes the device's primary context current. The lock is held. */
static int enter(int device, char *err, size_t n) {
	stalloc_cu_device dev;
	int code = driver.cuInit(0);
	const char *call = "cuInit";
	if (!code && !contexts[device]) {
		call = "cuDevicePrimaryCtxRetain";
		code = driver.cuDeviceGet(&dev, device);
		if (!code) code = driver.cuDevicePrimaryCtxRetain(&contexts[device], dev);
	}
	if (!code) {
		call = "cuCtxPushCurrent";
		code = driver.cuCtxPushCurrent(contexts[device]);
	}
	if (code) snprintf(err, n, "%s failed with driver error %d (%s)", call, code, stalloc_driver_error_name(&driver, code));
	return code ? STALLOC_ERR_DRIVER : STALLOC_OK;
}

static void leave(void) {
	stalloc_cu_context popped;
	driver.cuCtxPopCurrent(&popped);
}

int stalloc_plain_alloc(int device, size_t asked, void **out, char *err, size_t n) {
	size_t size = stalloc_round(asked);
	stalloc_cu_addr addr = 0;
	int mode = STALLOC_CU_CAPTURE_MODE_RELAXED;
	if (!stalloc_the_driver(err, n)) return STALLOC_ERR_DRIVER;
	struct block *b = malloc(sizeof *b);
	if (!b) {
		snprintf(err, n, "the host has no memory left");
		return STALLOC_ERR_MEMORY;
	}
	pthread_mutex_lock(&lock);
	int result = enter(device, err, n);
	if (result == STALLOC_OK) {
		/* A plain allocation during a graph capture would invalidate it. */
		driver.cuThreadExchangeStreamCaptureMode(&mode);
		int code = driver.cuMemAlloc(&addr, size);
		driver.cuThreadExchangeStreamCaptureMode(&mode);
		leave();
		if (code) {
			snprintf(err, n, "cuMemAlloc of %zu bytes failed with driver error %d (%s)", size, code,
				 stalloc_driver_error_name(&driver, code));
			result = code == STALLOC_CU_OUT_OF_MEMORY ? STALLOC_ERR_MEMORY : STALLOC_ERR_DRIVER;
		}
	}
	if (result == STALLOC_OK) {
		*b = (struct block){.next = *bucket(addr), .addr = addr, .size = size, .asked = asked, .device = device};
		*bucket(addr) = b;
		counts[device].bytes += size;
		counts[device].served++;
		*out = (void *)(uintptr_t)addr;
	} else {
		free(b);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/* False: not a plain block. cuMemFree waits for pending work, so other streams'
 * uses need no fence here. */
bool stalloc_plain_free(void *ptr, struct stalloc_freed *freed) {
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	char err[256];
	pthread_mutex_lock(&lock);
	struct block **at = bucket(addr), *b;
	while ((b = *at) && b->addr != addr) at = &b->next;
	if (b) {
		*at = b->next;
		counts[b->device].bytes -= b->size;
		*freed = (struct stalloc_freed){.asked = b->asked, .device = b->device};
		if (enter(b->device, err, sizeof err) == STALLOC_OK) {
			driver.cuMemFree(addr);
			leave();
		}
		free(b);
	}
	pthread_mutex_unlock(&lock);
	return b != NULL;
}

/* The block that contains an address. False: none does. Looks at all of them. */
bool stalloc_plain_base(uint64_t addr, uint64_t *start, uint64_t *size) {
	const struct block *found = NULL;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS && !found; i++)
		for (found = buckets[i]; found && addr - found->addr >= found->size;) found = found->next;
	if (found) {
		*start = found->addr;
		*size = found->size;
	}
	pthread_mutex_unlock(&lock);
	return found != NULL;
}

struct stalloc_plain_counts stalloc_plain_counts(int device) {
	pthread_mutex_lock(&lock);
	struct stalloc_plain_counts n = counts[device];
	pthread_mutex_unlock(&lock);
	return n;
}
