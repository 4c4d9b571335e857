/* What the C tests share: checks, random numbers, patterns, the fake driver. */
#ifndef STALLOC_TEST_KIT_H
#define STALLOC_TEST_KIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../stalloc.h"

/* Ends the process with a message unless the condition holds. */
#define CHECK(condition, ...)                                                          \
	do {                                                                           \
		if (!(condition)) kit_fail(__FILE__, __LINE__, #condition, __VA_ARGS__); \
	} while (0)
void kit_fail(const char *file, int line, const char *condition, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));

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

/* Functions of the simulated driver named in STALLOC_CONF (tests/fakecuda). */
int kit_fake_fail(const char *rules);
long kit_fake_count(const char *name);
long kit_fake_live(const char *kind);
void *kit_symbol(const char *conf_key, const char *symbol);

/* From kit_listen on, standard error is kept; kit_heard lets it out again and returns how
 * many of its lines contain a text. */
void kit_listen(void);
int kit_heard(const char *text);

struct stalloc_stats kit_stats(void);
/* Resident memory that is this process's own. */
size_t kit_resident(void);
/* Threads of this process. */
int kit_threads(void);
double kit_seconds(void); /* monotonic */
void kit_sleep_ms(unsigned ms);

#endif
