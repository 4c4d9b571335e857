/* The parts of libstalloc.so that its files share. */
#ifndef STALLOC_RUNTIME_H
#define STALLOC_RUNTIME_H

#include <signal.h>

#include "../../cuda/driver.h"
#include "../fast/shared.h"
#include "../stalloc.h"

#define STALLOC_LIKELY(x) __builtin_expect(!!(x), 1)
#define STALLOC_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* One byte on a page that the kernel wipes in a forked child: 1 in the process
 * that loaded the library, 0 in its children (and before initialisation). */
extern const unsigned char *_Atomic stalloc_alive;
extern struct stalloc_device stalloc_devices[STALLOC_MAX_DEVICES];

/* Idempotent and thread safe; false in a forked child. */
bool stalloc_ready(void);

/* The stream's state, made on first sight; NULL if memory is short. */
struct stalloc_stream *stalloc_stream_of(int device, void *stream);

/* As many devices as streams were seen of, counted from 0. */
extern _Atomic int stalloc_devices_seen;

/* Frees what begins at an address of a device, or says that nothing does. Never waits for Go. */
void stalloc_free_at(struct stalloc_device *d, uint64_t addr);

/* Leaves the device's lock as everybody but the quickest has to: what other threads announced
 * meanwhile is done. */
void stalloc_leave(struct stalloc_device *d);

/* Performs the frees that other threads announced on a device and nobody has looked at
 * yet: there may be no request or free any more that would. True if there were any. */
bool stalloc_settle(struct stalloc_device *d);

/* Sets the thread's last error and returns code. */
int stalloc_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The process's rank, as its launcher says in the environment; below 0: there is none. */
long stalloc_rank(void);

/* What lines of the log begin with: "stalloc", of several ranks "stalloc[3]". */
const char *stalloc_log_name(char *out, size_t n);

/* Between the two a write beyond the process's limit of file sizes fails, and does not end the
 * process as well, with SIGXFSZ. A program may lower that limit at any time. */
struct stalloc_held {
	sigset_t before;
	bool pending; /* one had come before */
};
void stalloc_hold_signal(struct stalloc_held *h);
void stalloc_let_signal(const struct stalloc_held *h);

/* Writes one line to standard error, once per key. */
void stalloc_log_once(_Atomic bool *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* conf.c: all that is wrong with STALLOC_CONF, or NULL. */
const char *stalloc_conf_problem(void);
/* The value of a key of STALLOC_CONF, or NULL. */
const char *stalloc_conf(const char *key);
const char *stalloc_conf_text(void);

/* link.c: the functions that libstalloc_engine.so exports, found by name as
 * stalloc_engine_<field>. They return STALLOC_OK or a negative error and then
 * write a text to err. None lets a panic pass. */
#define STALLOC_ENGINE_CALLS(X)                                                            \
	X(int, start, (const struct stalloc_host *host, char *err, size_t n))              \
	X(int, alloc, (struct stalloc_stream * stream, uint64_t pool, uint64_t asked,      \
		       uint64_t *addr, char *err, size_t n))                               \
	X(int, free, (uint64_t addr, bool past, struct stalloc_freed *freed))              \
	X(int, record, (uint64_t addr, uint64_t stream))                                   \
	X(int, base, (uint64_t addr, uint64_t *start, uint64_t *size))                     \
	X(int, step, (int device, char *err, size_t n))                                    \
	X(int, close, (int device, char *err, size_t n))                                   \
	X(int, save_plan, (int device, const char *path, char *err, size_t n))             \
	X(int, load_plan, (int device, const char *path, char *err, size_t n))             \
	X(int, trim, (int device, uint64_t pool))                                          \
	X(int, region, (const char *tag, uint64_t *pool, char *err, size_t n))             \
	X(int, pause, (int device, const char *const *tags, size_t count, bool keep,       \
		       char *err, size_t n))                                               \
	X(int, resume, (int device, const char *const *tags, size_t count, char *err,      \
			size_t n))                                                         \
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

/* The engine, opened by the first call; NULL if it cannot be used, or not for this
 * device. */
const struct stalloc_engine *stalloc_engine(int device);
/* The same for what belongs to no device: one that was closed is no obstacle. */
const struct stalloc_engine *stalloc_engine_of_any(void);
/* The engine if it is open already; never opens it. In a forked child it is not. */
const struct stalloc_engine *stalloc_engine_if_open(void);
/* The engine is not to be asked for memory of a device any more, and is not opened for
 * it: it answered that it cannot serve it, or it was closed. The first reason stays. All
 * devices are given up where the engine cannot be opened. */
void stalloc_engine_give_up(int device, const char *why);
/* A request of such a device is served all the same: says so, once. */
void stalloc_engine_tell_given_up(int device);

/* Why the engine does not serve a device; NULL if it does, or has not been asked. */
const char *stalloc_engine_problem(int device);

/* page.c: when a process started, as /proc/<pid>/stat says it; 0: there is none. Numbers of
 * processes are used again, and mean others in another container. */
uint64_t stalloc_start_of(long pid);

/* Bytes of other processes that are mapped for a device. */
size_t stalloc_imported(int device);

/* needs.c: whether Go's runtime can start, and whether it may run on this thread. */
bool stalloc_needs_met(char *err, size_t n);
bool stalloc_thread_fits(void);

/* plain.c: the driver's own allocations, when there is no engine. */
const struct stalloc_driver *stalloc_the_driver(char *err, size_t n);
int stalloc_plain_alloc(int device, size_t asked, void **out, char *err, size_t n);
bool stalloc_plain_free(void *ptr, struct stalloc_freed *freed);
bool stalloc_plain_find(uint64_t addr, struct stalloc_block *out);
/* Copies at most n live blocks of a device; returns how many there are. */
size_t stalloc_plain_blocks(int device, struct stalloc_block *out, size_t n);
/* Gives the driver what it would not take back before. */
void stalloc_plain_tidy(void);
struct stalloc_plain_counts {
	uint64_t bytes;	 /* of live blocks */
	uint64_t served; /* requests so far */
};
struct stalloc_plain_counts stalloc_plain_counts(int device);
bool stalloc_plain_base(uint64_t addr, uint64_t *start, uint64_t *size);

/* pools.c: a request of the private pool that serves a stream now; pool 0: the default pool. It
 * is under way from enter to leave. */
struct stalloc_flight {
	struct stalloc_flight *next;
	struct stalloc_device *device;
	uint64_t pool;
	bool released;	/* meanwhile */
};
void stalloc_pool_enter(struct stalloc_flight *f, struct stalloc_device *device, void *stream);
void stalloc_pool_leave(struct stalloc_flight *f);

/* regions.c: those that the thread has begun, the innermost last. */
struct stalloc_regions {
	uint64_t pools[16];
	unsigned count;
};
extern __thread struct stalloc_regions stalloc_regions;
/* The pool of the innermost; 0: there is none. */
static inline uint64_t stalloc_region(void) { return stalloc_regions.count ? stalloc_regions.pools[stalloc_regions.count - 1] : 0; }
/* Has the thread's next request look whether it is in one. */
void stalloc_look_again(void);

#endif
