/* What the C tests share: checks, random numbers, patterns, the fake driver. */
#ifndef STALLOC_TEST_KIT_H
#define STALLOC_TEST_KIT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../tests/fakecuda/fakecuda.h"
#include "../stalloc_torch.h"

typedef unsigned long long ull; /* as printf wants it */

/* Ends the process with a message unless the condition holds. */
#define CHECK(condition, ...)                                                          \
	do {                                                                           \
		if (!(condition)) kit_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)
void kit_fail(const char *file, int line, const char *condition, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
#define OK(call) CHECK((call) == STALLOC_OK, "%s", stalloc_last_error())
/* For a call that has to fail, and to say a word. */
#define SAYS(failed, words)                                                      \
	CHECK((failed) && strstr(stalloc_last_error(), words), "\"%s\" does not say: %s", \
	      stalloc_last_error(), words)
/* Allocates a block; the test ends if there is none. */
void *kit_get(size_t size, int device, void *stream);

/* splitmix64: every state is a good seed. */
uint64_t kit_random(uint64_t *state);
static inline uint64_t kit_below(uint64_t *state, uint64_t n) { return kit_random(state) % n; }

/* The seed of the run: STALLOC_TEST_SEED, else the clock. Printed once. */
uint64_t kit_seed(void);
/* A number from the environment. */
uint64_t kit_number(const char *name, uint64_t fallback);

/* Writes a pattern that depends on the tag: all of a small block, of a large one
 * the first and last 4 KiB and a word of every 4 KiB between. */
void kit_fill(void *block, size_t size, uint64_t tag);
/* The offset of the first word that is not as kit_fill left it, or -1. */
long kit_damage(const void *block, size_t size, uint64_t tag);

/* Ends the process if progress is not called for so many seconds, and says what its
 * threads do. */
void kit_watchdog(unsigned seconds);
void kit_progress(void);

/* A symbol of the library that a key of STALLOC_CONF names. */
void *kit_symbol(const char *conf_key, const char *symbol);
/* A function of the fake driver (tests/fakecuda): fake(live)("streams"). */
#define fake(name)                                                                \
	({                                                                        \
		static void *_Atomic f_;                                          \
		if (!f_) f_ = kit_symbol("driver", "fakecuda_" #name);            \
		(__typeof__(fakecuda_##name) *)f_;                                \
	})

void kit_pass_all(void); /* the fake driver's work that is held back */

/* A stream of the driver's, of cuStreamCreate's flags; NULL: the driver fails. */
void *kit_stream(int device, unsigned flags);
void kit_stream_end(void *stream);
/* The filter of a private pool that takes one stream, in the layout of a
 * std::function<bool(cudaStream_t)>, as PyTorch passes it. */
struct kit_filter {
	union kit_functor {
		void *stream;
		char bytes[16];
	} functor;
	bool (*manager)(union kit_functor *to, const union kit_functor *from, int operation);
	bool (*invoker)(const union kit_functor *functor, void **stream);
};
struct kit_filter kit_only(void *stream);

/* From kit_stderr_begin on, standard error is redirected; kit_stderr_end writes it out and returns
 * how many of its lines contain a text. */
void kit_stderr_begin(void);
int kit_stderr_end(const char *text);

struct stalloc_stats kit_stats_of(int device);
static inline struct stalloc_stats kit_stats(void) { return kit_stats_of(0); }
/* Once the cache is emptied, nothing lives, waits or is held, pinned memory of the host neither. */
void kit_nothing_left(const char *after);
/* Resident memory that is this process's own. */
size_t kit_resident(void);
pthread_t kit_thread(void *(*f)(void *), void *argument);
/* Threads of this process. */
int kit_threads(void);
double kit_seconds(void); /* monotonic */
void kit_sleep_ms(unsigned ms);
/* A sleep in a loop that waits for what another thread does, the planner say. Sleeps are counted,
 * from waited = 0 on, not the time: where the machine is busy or stands still, nothing hangs. After
 * a minute of them the test ends, and says what has not come. */
void kit_wait(unsigned *waited, unsigned ms, const char *awaited);

#endif
