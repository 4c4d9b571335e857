/* Plain driver allocations, for when the engine cannot serve. Slow, but a training job survives. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

static const struct stalloc_driver *driver; /* once a call has entered */

/* Live blocks, in a hash table by address. */
struct block {
	struct block *next;
	uint64_t addr, size, asked;
	uint64_t graph; /* the private pool whose graphs remember it; 0: none */
	int device;
};
enum { BUCKETS = 4096 };
static struct block *buckets[BUCKETS];
static struct block *refused, **refused_end = &refused; /* freed, but not yet by the driver */
static size_t refused_n;
static struct block *remembered; /* freed, but graphs remember them */
static struct stalloc_plain_counts counts[STALLOC_MAX_DEVICES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stalloc_cu_context contexts[STALLOC_MAX_DEVICES];

static struct block **bucket(uint64_t addr) {
	return &buckets[(addr >> 9) * 0x9E3779B97F4A7C15u >> 52];
}

/* Where the block at an address is in its bucket, or would be. */
static struct block **find(uint64_t addr) {
	struct block **at = bucket(addr);
	while (*at && (*at)->addr != addr) at = &(*at)->next;
	return at;
}

static int failed(const char *call, int code, char *err, size_t n) {
	snprintf(err, n, "%s failed with driver error %d (%s)", call, code,
		 stalloc_driver_error_name(driver, code));
	return STALLOC_ERR_DRIVER;
}

/* Between the two the device's primary context is current, and no call ends a capture. Called with
 * the lock held. */
static int mode_before;
static int enter(int device, char *err, size_t n) {
	stalloc_cu_device dev;
	int code;
	if (!(driver = stalloc_get_driver(err, n))) return STALLOC_ERR_DRIVER;
	if ((code = driver->cuInit(0))) return failed("cuInit", code, err, n);
	if (!contexts[device]) {
		code = driver->cuDeviceGet(&dev, device);
		if (!code) code = driver->cuDevicePrimaryCtxRetain(&contexts[device], dev);
		if (code) return failed("cuDevicePrimaryCtxRetain", code, err, n);
	}
	if ((code = driver->cuCtxPushCurrent(contexts[device])))
		return failed("cuCtxPushCurrent", code, err, n);
	mode_before = STALLOC_CU_CAPTURE_MODE_RELAXED;
	driver->cuThreadExchangeStreamCaptureMode(&mode_before);
	return STALLOC_OK;
}

static void leave(void) {
	stalloc_cu_context popped;
	driver->cuThreadExchangeStreamCaptureMode(&mode_before);
	driver->cuCtxPopCurrent(&popped);
}

int stalloc_capturing(int device, void *stream) {
	char err[512];
	int status = 0, code = -1;
	pthread_mutex_lock(&lock);
	if (enter(device, err, sizeof err) == STALLOC_OK) {
		code = driver->cuStreamIsCapturing((stalloc_cu_stream)stream, &status);
		leave();
	}
	pthread_mutex_unlock(&lock);
	return code ? -1 : status != STALLOC_CU_CAPTURE_NONE;
}

/* Frees a block in the driver. False: the driver refused. Called with the lock held. */
static bool free_in_driver(const struct block *b) {
	static _Atomic bool logged;
	char err[256];
	if (enter(b->device, err, sizeof err) == STALLOC_OK) {
		stalloc_track(driver, b->device, b->addr, b->size, STALLOC_UNMAPPED);
		int code = driver->cuMemFree(b->addr);
		leave();
		if (!code) {
			counts[b->device].bytes -= b->size;
			return true;
		}
		failed("cuMemFree", code, err, sizeof err);
	}
	stalloc_log_once(&logged,
			 "a freed block of %llu bytes cannot be given back to the driver yet: %s",
			 (unsigned long long)b->size, err);
	return false;
}

static void append_refused(struct block *b) {
	b->next = NULL;
	*refused_end = b;
	refused_end = &b->next;
	refused_n++;
}

/* Retries up to so many frees, the oldest first. */
static void retry_frees(size_t most) {
	for (struct block *b; most > 0 && (b = refused); most--) {
		if (!(refused = b->next)) refused_end = &refused;
		refused_n--;
		if (free_in_driver(b))
			free(b);
		else
			append_refused(b);
	}
}

/* How many frees a request or a free retries: the driver may refuse them all for good. */
#define AT_ONCE 8

int stalloc_plain_alloc(int device, size_t asked, uint64_t graph, void **out, char *err,
			size_t n) {
	size_t size = stalloc_round(asked);
	stalloc_cu_addr addr = 0;
	struct block *b = malloc(sizeof *b);
	if (!b) {
		snprintf(err, n, "the host has no memory left");
		return STALLOC_ERR_MEMORY;
	}
	pthread_mutex_lock(&lock);
	retry_frees(AT_ONCE);
	int result = enter(device, err, n);
	if (result == STALLOC_OK) {
		char call[64];
		int code = driver->cuMemAlloc(&addr, size);
		leave();
		snprintf(call, sizeof call, "cuMemAlloc of %zu bytes", size);
		if (code) result = failed(call, code, err, n);
		if (code == STALLOC_CU_OUT_OF_MEMORY) result = STALLOC_ERR_MEMORY;
	}
	if (result == STALLOC_OK) {
		*b = (struct block){.next = *bucket(addr), .addr = addr, .size = size,
				    .asked = asked, .graph = graph, .device = device};
		*bucket(addr) = b;
		counts[device].bytes += size;
		if (counts[device].bytes > counts[device].peak)
			counts[device].peak = counts[device].bytes;
		counts[device].served++;
		stalloc_track(driver, device, addr, size, STALLOC_MAPPED);
		stalloc_track(driver, device, addr, size, STALLOC_USABLE);
		*out = (void *)(uintptr_t)addr;
	} else {
		free(b);
	}
	pthread_mutex_unlock(&lock);
	return result;
}

void stalloc_plain_retry_frees(void) {
	if (!*stalloc_alive) return;
	pthread_mutex_lock(&lock);
	retry_frees(refused_n);
	pthread_mutex_unlock(&lock);
	stalloc_tidy_imports();
}

/* False: not a plain driver allocation. cuMemFree waits for pending work, so blocks that other
 * streams use need no event here. */
bool stalloc_plain_free(void *ptr, struct stalloc_freed *freed) {
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	pthread_mutex_lock(&lock);
	struct block **at = find(addr), *b = *at;
	const bool known = b != NULL;
	if (known) {
		*at = b->next;
		*freed = (struct stalloc_freed){.asked = b->asked, .device = b->device};
		if (b->graph) {
			b->next = remembered;
			remembered = b;
		} else {
			append_refused(b);
			retry_frees(AT_ONCE);
		}
	}
	pthread_mutex_unlock(&lock);
	return known;
}

void stalloc_plain_release_graphs(int device, uint64_t pool) {
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS && counts[device].served; i++)
		for (struct block *b = buckets[i]; b; b = b->next)
			if (b->device == device && b->graph == pool) b->graph = 0;
	for (struct block **at = &remembered, *b; (b = *at);) {
		if (b->device != device || b->graph != pool) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		append_refused(b);
	}
	retry_frees(refused_n);
	pthread_mutex_unlock(&lock);
}

static struct stalloc_block block_info(const struct block *b) {
	return (struct stalloc_block){
		.ptr = (void *)(uintptr_t)b->addr, .asked = b->asked, .device = b->device};
}

/* Inside searches all blocks. */
bool stalloc_plain_find(uint64_t addr, bool inside, struct stalloc_block *out) {
	pthread_mutex_lock(&lock);
	const struct block *b = *find(addr);
	for (int i = 0; i < BUCKETS && inside && !b; i++)
		for (b = buckets[i]; b && addr - b->addr >= b->size;) b = b->next;
	if (b) *out = block_info(b);
	pthread_mutex_unlock(&lock);
	return b != NULL;
}

size_t stalloc_plain_blocks(int device, struct stalloc_block *out, size_t n) {
	size_t all = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS && counts[device].served; i++)
		for (const struct block *b = buckets[i]; b; b = b->next)
			if (b->device == device && all++ < n) out[all - 1] = block_info(b);
	pthread_mutex_unlock(&lock);
	return all;
}

struct stalloc_plain_counts stalloc_plain_counts(int device) {
	pthread_mutex_lock(&lock);
	struct stalloc_plain_counts n = counts[device];
	pthread_mutex_unlock(&lock);
	return n;
}

void stalloc_plain_reset_peak(int device) {
	pthread_mutex_lock(&lock);
	counts[device].peak = counts[device].bytes;
	pthread_mutex_unlock(&lock);
}
