/* What the files of libstalloc.so share. */
#ifndef STALLOC_RUNTIME_H
#define STALLOC_RUNTIME_H

#include <signal.h>

#include "../../cuda/driver.h"
#include "../fast/shared.h"

#define STALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define STALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* process.c: a byte on a page that the kernel wipes in a forked child. It is 1 in the process that
 * initialised the library, 0 before that and in its children. */
extern const unsigned char *_Atomic stalloc_alive;
extern struct stalloc_device stalloc_devices[STALLOC_MAX_DEVICES];

/* Initialises the library once; false in a forked child. */
bool stalloc_ready(void);

/* seen.c: a stream's state, created on first use; NULL: no such device, or no host memory. */
struct stalloc_stream *stalloc_stream_of(int device, void *stream);

/* One more than the highest device of which a stream was seen. */
extern _Atomic int stalloc_devices_seen;

/* The stream that the thread used last. In a region it is never valid: see malloc.c. */
struct stalloc_recent {
	int device;
	void *id;
	struct stalloc_stream *stream;
	struct stalloc_device *of;
	struct stalloc_bias
		*bias; /* the thread's, if the lock is biased towards it; never NULL once valid */
};
extern __thread struct stalloc_recent stalloc_recent;
/* Makes the thread's next request look up its stream and its region. */
void stalloc_invalidate_recent(void);

/* malloc.c: frees the block at an address of a device; logs an unknown one. Never waits for the
 * lock. */
void stalloc_free_at(struct stalloc_device *d, uint64_t addr);

/* deferred.c: performs a device's deferred frees now, for when no later request or free may do so,
 * and waits for those that other threads have taken to perform. True if there were any. */
bool stalloc_drain_now(struct stalloc_device *d);

/* error.c: sets the thread's last error, unless code is STALLOC_OK, and returns code. */
int stalloc_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Fails for a device that there cannot be; least: -1 where all devices can be meant, or 0. */
int stalloc_check_device(int device, int least);
static inline bool stalloc_is_device(int device) {
	return device >= 0 && device < STALLOC_MAX_DEVICES;
}

/* log.c: the process's rank, from its launcher's environment variables; negative: none. */
long stalloc_rank(void);

/* The prefix of log lines: "stalloc", or with ranks "stalloc[3]". */
const char *stalloc_log_name(char *out, size_t n);

/* Between the two, a write beyond the process's file size limit only fails; otherwise SIGXFSZ would
 * kill the process. A program may lower that limit at any time. */
struct stalloc_sigxfsz {
	sigset_t before;
	bool pending; /* a SIGXFSZ was pending before */
};
void stalloc_block_sigxfsz(struct stalloc_sigxfsz *h);
void stalloc_restore_sigxfsz(const struct stalloc_sigxfsz *h);

/* Writes one line to standard error, once per key. */
void stalloc_log_once(_Atomic bool *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* conf.c: all mistakes in STALLOC_CONF, or NULL. */
const char *stalloc_conf_problem(void);
/* The value of a key of STALLOC_CONF, or NULL. */
const char *stalloc_conf(const char *key);
const char *stalloc_conf_text(void);

/* engine.c: the functions that libstalloc_engine.so exports, found by name as
 * stalloc_engine_<field>. They return STALLOC_OK, or a negative error and a text in err. No panic
 * leaves them. */
#define STALLOC_ENGINE_CALLS(X)                                                            \
	X(int, start, (const struct stalloc_host *host, char *err, size_t n))              \
	X(int, alloc, (struct stalloc_stream * stream, uint64_t pool, uint64_t asked,      \
		       uint64_t *addr, char *err, size_t n))                               \
	X(int, free, (uint64_t addr, bool deferred, struct stalloc_freed *freed))          \
	X(int, record_stream, (uint64_t addr, uint64_t stream))                            \
	X(int, base, (uint64_t addr, uint64_t *start, uint64_t *size))                     \
	X(int, step, (int device, char *err, size_t n))                                    \
	X(int, close, (int device, char *err, size_t n))                                   \
	X(int, save_plan, (int device, const char *path, char *err, size_t n))             \
	X(int, load_plan, (int device, const char *path, char *err, size_t n))             \
	X(int, trim, (int device, uint64_t pool))                                          \
	X(int, capture, (int device, uint64_t pool))                                       \
	X(int, region, (const char *tag, uint64_t *pool, char *err, size_t n))             \
	X(int, sleep, (int device, const char *const *tags, size_t count, int how,         \
		       char *err, size_t n))                                               \
	X(int, awake, (int device, const char *tag, uint64_t stream, int how, char *err,   \
		       size_t n))                                                          \
	X(int, export, (uint64_t addr, uint64_t *offset, char *pieces, size_t room,        \
			char *err, size_t n))                                              \
	X(int, limit, (int device, double fraction, char *err, size_t n))                  \
	X(int, stats, (int device, struct stalloc_stats *out, int reset_peak))             \
	X(int, explain, (int device, char *text, size_t n))                                \
	X(int, nudge, (void))

struct stalloc_engine {
#define STALLOC_ENGINE_FIELD(type, name, parameters) type(*name) parameters;
	STALLOC_ENGINE_CALLS(STALLOC_ENGINE_FIELD)
#undef STALLOC_ENGINE_FIELD
};

/* The engine, opened by the first call; NULL if it cannot be used, or not for this device. */
const struct stalloc_engine *stalloc_engine(int device);
/* The same for calls that concern no single device; closed devices do not matter. */
const struct stalloc_engine *stalloc_engine_of_any(void);
/* The engine if it is open; NULL otherwise, and in a forked child. */
const struct stalloc_engine *stalloc_engine_if_open(void);
/* Never allocates from the engine for a device again: the engine cannot serve it, or it was closed.
 * The first reason is kept. If the engine cannot be opened, every device is given up. */
void stalloc_engine_give_up(int device, const char *why);
/* Logs once per device that plain driver allocations serve it. */
void stalloc_log_fallback_once(int device);

/* Why the engine does not serve a device; NULL if it does, or there was no request yet. */
const char *stalloc_engine_problem(int device);

/* page.c: the start time of a process from /proc/<pid>/stat; 0: there is no such process. Together
 * with the pid it identifies a process: pids are reused, and differ between containers. */
uint64_t stalloc_process_start(long pid);

/* ipc.c: bytes of other processes' memory that are mapped on a device. */
size_t stalloc_imported_bytes(int device);

/* needs.c: whether Go's runtime can start, and whether it can run on this thread. */
bool stalloc_needs_met(char *err, size_t n);
bool stalloc_thread_fits(void);

/* cuda.c: the driver, opened by the first call; NULL: it cannot be, and err says why. */
const struct stalloc_driver *stalloc_get_driver(char *err, size_t n);
/* Tries again to unmap imported memory that the driver refused to unmap. */
void stalloc_tidy_imports(void);

/* fallback.c: plain driver allocations, when there is no engine. */
/* graph: the private pool of a captured request, whose block goes back with the pool; 0: none. */
int stalloc_plain_alloc(int device, size_t asked, uint64_t graph, void **out, char *err, size_t n);
void stalloc_plain_release_graphs(int device, uint64_t pool);
bool stalloc_plain_free(void *ptr, struct stalloc_freed *freed);
/* The block that begins at an address or, with inside, contains it. */
bool stalloc_plain_find(uint64_t addr, bool inside, struct stalloc_block *out);
/* Copies at most n live blocks of a device; returns how many there are. */
size_t stalloc_plain_blocks(int device, struct stalloc_block *out, size_t n);
/* Retries frees that the driver has refused. */
void stalloc_plain_retry_frees(void);
struct stalloc_plain_counts {
	uint64_t bytes, peak; /* of live blocks */
	uint64_t served;      /* requests so far */
};
struct stalloc_plain_counts stalloc_plain_counts(int device);
void stalloc_plain_reset_peak(int device);

/* Whether a stream is being captured into a graph; negative: the driver cannot tell. */
int stalloc_capturing(int device, void *stream);

/* openings.c, pools.c: a request in flight, from enter to leave, and the number of the pool that it
 * belongs to in the engine; 0: the default pool. */
struct stalloc_flight {
	uint64_t pool;
	struct pool *of; /* a private one that something uses, or NULL */
	bool graph;	 /* graphs remember the addresses of the pool */
};
void stalloc_pool_enter(struct stalloc_flight *f, struct stalloc_device *device, void *stream);
void stalloc_pool_leave(struct stalloc_flight *f);
/* Ends the pools of captures that this thread has begun and that have failed since. True if there
 * were any. */
bool stalloc_end_failed_captures(void);
/* Frees what pools that were released during captures have left. */
void stalloc_settle_pools(void);
/* The ids of an engine's pool; zero for the default pool and regions. */
void stalloc_pool_ids(int device, uint64_t pool, uint64_t ids[2]);

/* regions.c: the regions that the thread is in, the innermost last. */
struct stalloc_regions {
	uint64_t pools[16];
	unsigned count;
};
extern __thread struct stalloc_regions stalloc_regions;
/* The pool of the innermost region; 0: the thread is in none. */
static inline uint64_t stalloc_region(void) {
	return stalloc_regions.count ? stalloc_regions.pools[stalloc_regions.count - 1] : 0;
}

#endif
