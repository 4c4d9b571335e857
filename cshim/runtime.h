/* The parts of libstalloc.so that its files share. */
#ifndef STALLOC_RUNTIME_H
#define STALLOC_RUNTIME_H

#include "../cuda/driver.h"
#include "shared.h"
#include "stalloc.h"

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

/* Frees what of the announced frees only Go can. */
void stalloc_finish(struct stalloc_device *d);

/* Performs the frees that other threads announced on a device and nobody has looked at
 * yet: there may be no request or free any more that would. True if there were any. */
bool stalloc_settle(struct stalloc_device *d);

/* Sets the thread's last error and returns code. */
int stalloc_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What lines of the log begin with: "stalloc", of several ranks "stalloc[3]", as the
 * launcher says in the environment. */
const char *stalloc_log_name(char *out, size_t n);

/* Writes one line to standard error, once per key. */
void stalloc_log_once(_Atomic bool *key, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* conf.c: the value of a key of STALLOC_CONF, or NULL. */
int stalloc_conf_read(void);
const char *stalloc_conf(const char *key);
const char *stalloc_conf_text(void);

/* link.c: the functions that libstalloc_engine.so exports, found by name as
 * stalloc_engine_<field>. They return STALLOC_OK or a negative error and then
 * write a text to err. None lets a panic pass. */
#define STALLOC_ENGINE_CALLS(X)                                                            \
	X(int, start, (const struct stalloc_host *host, char *err, size_t n))              \
	X(int, alloc, (struct stalloc_stream * stream, uint64_t pool, uint64_t asked,      \
		       uint64_t *addr, char *err, size_t n))                               \
	X(int, free, (uint64_t addr, struct stalloc_freed *freed))                         \
	X(int, record, (uint64_t addr, uint64_t stream))                                   \
	X(int, base, (uint64_t addr, uint64_t *start, uint64_t *size))                     \
	X(int, step, (int device, char *err, size_t n))                                    \
	X(int, close, (int device, char *err, size_t n))                                   \
	X(int, save_plan, (int device, const char *path, char *err, size_t n))             \
	X(int, load_plan, (int device, const char *path, char *err, size_t n))             \
	X(int, trim, (int device, uint64_t pool))                                          \
	X(int, limit, (int device, double fraction))                                       \
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

/* needs.c: whether Go's runtime can start, and whether it may run on this thread. */
bool stalloc_needs_met(char *err, size_t n);
bool stalloc_thread_fits(void);

/* plain.c: the driver's own allocations, when there is no engine. */
const struct stalloc_driver *stalloc_the_driver(char *err, size_t n);
int stalloc_plain_alloc(int device, size_t asked, void **out, char *err, size_t n);
bool stalloc_plain_free(void *ptr, struct stalloc_freed *freed);
struct stalloc_plain_counts {
	uint64_t bytes;	 /* of live blocks */
	uint64_t served; /* requests so far */
};
struct stalloc_plain_counts stalloc_plain_counts(int device);
bool stalloc_plain_base(uint64_t addr, uint64_t *start, uint64_t *size);

/* pools.c: the private pool that serves a stream now, 0: the default pool. */
uint64_t stalloc_pool_of(struct stalloc_device *device, void *stream);

#endif
