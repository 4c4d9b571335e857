#include "kit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WHOLE = 32 << 10, STRIDE = 4096, EDGE = 4096 };

static uint64_t seed_of_run;

void kit_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	fprintf(stderr, "%s:%d: %s does not hold: ", file, line, condition);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (seed %llu)\n", (unsigned long long)seed_of_run);
	abort();
}

uint64_t kit_random(uint64_t *state)
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

uint64_t kit_number(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);
	char *end;
	if (!text || !*text) return fallback;
	uint64_t value = strtoull(text, &end, 0);
	CHECK(*end == '\0', "%s=%s is not a number", name, text);
	return value;
}

uint64_t kit_seed(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	seed_of_run = kit_number("STALLOC_TEST_SEED", (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec);
	printf("seed %llu (STALLOC_TEST_SEED repeats it)\n", (unsigned long long)seed_of_run);
	fflush(stdout);
	return seed_of_run;
}

static uint64_t word(uint64_t tag, size_t at) { return (tag + at) * 0x9E3779B97F4A7C15u ^ tag << 32; }

/* The word behind the one at an offset that carries the pattern. */
static size_t next(size_t at, size_t size)
{
	at += 8;
	if (size <= WHOLE || at < EDGE || at >= size - EDGE) return at;
	size_t aligned = (at + STRIDE - 1) / STRIDE * STRIDE, tail = (size - EDGE) & ~(size_t)7;
	return aligned < tail ? aligned : tail > at ? tail : at;
}

void kit_fill(void *block, size_t size, uint64_t tag)
{
	for (size_t at = 0; at + 8 <= size; at = next(at, size)) {
		uint64_t w = word(tag, at);
		memcpy((char *)block + at, &w, sizeof w);
	}
	for (size_t at = size & ~(size_t)7; at < size; at++) ((unsigned char *)block)[at] = (unsigned char)(tag + at);
}

long kit_damage(const void *block, size_t size, uint64_t tag)
{
	uint64_t w;
	for (size_t at = 0; at + 8 <= size; at = next(at, size)) {
		memcpy(&w, (const char *)block + at, sizeof w);
		if (w != word(tag, at)) return (long)at;
	}
	for (size_t at = size & ~(size_t)7; at < size; at++)
		if (((const unsigned char *)block)[at] != (unsigned char)(tag + at)) return (long)at;
	return -1;
}

static _Atomic uint64_t progress;

void kit_progress(void) { atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed); }

static void *watch(void *argument)
{
	uint64_t last = atomic_load(&progress), now;
	for (;;) {
		sleep((unsigned)(uintptr_t)argument);
		now = atomic_load(&progress);
		if (now == last) {
			fprintf(stderr, "watchdog: no progress for %u s (seed %llu)\n", (unsigned)(uintptr_t)argument,
				(unsigned long long)seed_of_run);
			abort();
		}
		last = now;
	}
	return NULL;
}

void kit_watchdog(unsigned seconds)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, watch, (void *)(uintptr_t)seconds) == 0, "no thread");
	pthread_detach(thread);
}

/* A symbol of the library that a key of STALLOC_CONF names. */
void *kit_symbol(const char *conf_key, const char *symbol)
{
	char path[1024] = "";
	const char *conf = getenv("STALLOC_CONF"), *at = conf ? strstr(conf, conf_key) : NULL;
	CHECK(at && at[strlen(conf_key)] == ':', "STALLOC_CONF names no %s", conf_key);
	snprintf(path, sizeof path, "%s", at + strlen(conf_key) + 1);
	path[strcspn(path, ",")] = '\0';
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	CHECK(library, "%s", dlerror());
	void *found = dlsym(library, symbol);
	CHECK(found, "%s has no %s", path, symbol);
	return found;
}

int kit_fake_fail(const char *rules)
{
	int (*f)(const char *);
	*(void **)&f = kit_symbol("driver", "fakecuda_fail");
	return f(rules);
}

long kit_fake_count(const char *name)
{
	long (*f)(const char *);
	*(void **)&f = kit_symbol("driver", "fakecuda_count");
	return f(name);
}

long kit_fake_live(const char *kind)
{
	long (*f)(const char *);
	*(void **)&f = kit_symbol("driver", "fakecuda_live");
	return f(kind);
}

struct stalloc_stats kit_stats(void)
{
	struct stalloc_stats s;
	CHECK(stalloc_get_stats(0, &s, sizeof s) == STALLOC_OK, "%s", stalloc_last_error());
	return s;
}

int kit_threads(void)
{
	char line[256];
	int n = -1;
	FILE *f = fopen("/proc/self/status", "r");
	CHECK(f, "no /proc");
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "Threads: %d", &n) == 1) break;
	fclose(f);
	return n;
}

double kit_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void kit_sleep_ms(unsigned ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
	nanosleep(&t, NULL);
}
