#include "kit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../cuda/driver.h"

enum { WHOLE = 32 << 10, STRIDE = 4096, EDGE = 4096 };

static uint64_t seed_of_run;
static FILE *saved_stderr; /* what is written to standard error, while it is redirected */
static int stderr_copy;

void kit_fail(const char *file, int line, const char *condition, const char *format, ...)
{
	va_list args;
	fflush(stdout);
	if (saved_stderr) kit_stderr_end("");
	fprintf(stderr, "%s:%d: %s does not hold: ", file, line, condition);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (seed %llu)\n", (ull)seed_of_run);
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
	seed_of_run = kit_number("STALLOC_TEST_SEED",
				 (uint64_t)now.tv_sec * 1000003u ^ (uint64_t)now.tv_nsec);
	printf("seed %llu (STALLOC_TEST_SEED repeats it)\n", (ull)seed_of_run);
	fflush(stdout);
	return seed_of_run;
}

static uint64_t word(uint64_t tag, size_t at)
{
	return (tag + at) * 0x9E3779B97F4A7C15u ^ tag << 32;
}

/* The word after the one at an offset that carries the pattern. */
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
	for (size_t at = size & ~(size_t)7; at < size; at++)
		((unsigned char *)block)[at] = (unsigned char)(tag + at);
}

long kit_damage(const void *block, size_t size, uint64_t tag)
{
	uint64_t w;
	for (size_t at = 0; at + 8 <= size; at = next(at, size)) {
		memcpy(&w, (const char *)block + at, sizeof w);
		if (w != word(tag, at)) return (long)at;
	}
	for (size_t at = size & ~(size_t)7; at < size; at++)
		if (((const unsigned char *)block)[at] != (unsigned char)(tag + at))
			return (long)at;
	return -1;
}

static _Atomic uint64_t progress;

void kit_progress(void) { atomic_fetch_add_explicit(&progress, 1, memory_order_relaxed); }

/* A line of /proc/self/task/TID/NAME, "?" if it cannot be read. */
static const char *of_thread(const char *tid, const char *name, char *line, int size)
{
	char path[300];
	snprintf(path, sizeof path, "/proc/self/task/%s/%s", tid, name);
	FILE *f = fopen(path, "r");
	if (!f || !fgets(line, size, f)) snprintf(line, (size_t)size, "?");
	if (f) fclose(f);
	line[strcspn(line, "\n")] = '\0';
	return line;
}

/* What every thread does: its state (R runs, S sleeps), the number and arguments of the
 * system call it is in, and the time it has had. All asleep is a deadlock, some running
 * is a loop without an end or a machine that gives no time. */
static void print_threads(void)
{
	char stat[512], call[256];
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *d; tasks && (d = readdir(tasks));) {
		if (d->d_name[0] == '.') continue;
		char state = '?';
		unsigned long user = 0, kernel = 0;
		const char *rest = strrchr(of_thread(d->d_name, "stat", stat, sizeof stat), ')');
		if (rest)
			sscanf(rest, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			       &state, &user, &kernel);
		fprintf(stderr, "  thread %s: %c, %lu and %lu ticks, in %s\n", d->d_name, state,
			user, kernel, of_thread(d->d_name, "syscall", call, sizeof call));
	}
	if (tasks) closedir(tasks);
}

/* Waits in slices: where the machine stands still, it is not the program that hangs. */
static void *watch(void *argument)
{
	unsigned seconds = (unsigned)(uintptr_t)argument, slices = 0;
	for (uint64_t last = atomic_load(&progress); slices < 10 * seconds; slices++) {
		kit_sleep_ms(100);
		uint64_t now = atomic_load(&progress);
		if (now == last) continue;
		last = now;
		slices = 0;
	}
	if (saved_stderr) kit_stderr_end("");
	fprintf(stderr, "watchdog: no progress for %u s after %llu blocks (seed %llu)\n", seconds,
		(ull)atomic_load(&progress), (ull)seed_of_run);
	print_threads();
	abort();
}

pthread_t kit_thread(void *(*f)(void *), void *argument)
{
	pthread_t thread;
	CHECK(pthread_create(&thread, NULL, f, argument) == 0, "no thread");
	return thread;
}

void kit_watchdog(unsigned seconds)
{
	pthread_detach(kit_thread(watch, (void *)(uintptr_t)seconds));
}

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

void *kit_get(size_t size, int device, void *stream)
{
	void *at = stalloc_malloc(size, device, stream);
	CHECK(at, "%s", stalloc_last_error());
	return at;
}

void kit_pass_all(void)
{
	while (fake(pass)(0, 1L << 40)) kit_progress();
}

static struct {
	__typeof__(((struct stalloc_driver *)0)->cuInit) init;
	__typeof__(((struct stalloc_driver *)0)->cuDevicePrimaryCtxRetain) retain;
	__typeof__(((struct stalloc_driver *)0)->cuCtxPushCurrent) push;
	__typeof__(((struct stalloc_driver *)0)->cuCtxPopCurrent) pop;
	__typeof__(((struct stalloc_driver *)0)->cuStreamCreate) create;
	__typeof__(((struct stalloc_driver *)0)->cuStreamDestroy) destroy;
} driver;
static stalloc_cu_context contexts[8];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Before any call of the driver fails. */
static void open_driver(void)
{
	int devices;
	int (*count)(int *);
	*(void **)&driver.init = kit_symbol("driver", "cuInit");
	*(void **)&driver.retain = kit_symbol("driver", "cuDevicePrimaryCtxRetain");
	*(void **)&driver.push = kit_symbol("driver", "cuCtxPushCurrent_v2");
	*(void **)&driver.pop = kit_symbol("driver", "cuCtxPopCurrent_v2");
	*(void **)&driver.create = kit_symbol("driver", "cuStreamCreate");
	*(void **)&driver.destroy = kit_symbol("driver", "cuStreamDestroy_v2");
	*(void **)&count = kit_symbol("driver", "cuDeviceGetCount");
	CHECK(driver.init(0) == 0 && count(&devices) == 0, "no driver");
	for (int d = 0; d < devices; d++)
		CHECK(driver.retain(&contexts[d], d) == 0, "no context");
}

void *kit_stream(int device, unsigned flags)
{
	void *stream = NULL;
	stalloc_cu_context popped;
	pthread_once(&once, open_driver);
	if (driver.push(contexts[device]) != 0) return NULL;
	if (driver.create(&stream, flags) != 0) stream = NULL;
	while (driver.pop(&popped) != 0) kit_sleep_ms(1); /* the driver fails at times */
	return stream;
}

void kit_stream_end(void *stream)
{
	stalloc_cu_context popped;
	while (driver.push(contexts[0]) != 0) kit_sleep_ms(1);
	while (driver.destroy(stream) != 0) kit_sleep_ms(1);
	while (driver.pop(&popped) != 0) kit_sleep_ms(1);
}

static bool manage(union kit_functor *to, const union kit_functor *from, int operation)
{
	if (operation == 2) *to = *from;
	return false;
}

static bool same(const union kit_functor *f, void **stream) { return f->stream == *stream; }

struct kit_filter kit_only(void *stream)
{
	return (struct kit_filter){{.stream = stream}, manage, same};
}

void kit_stderr_begin(void)
{
	CHECK((saved_stderr = tmpfile()), "no temporary file");
	fflush(stderr);
	stderr_copy = dup(STDERR_FILENO);
	dup2(fileno(saved_stderr), STDERR_FILENO);
}

int kit_stderr_end(const char *text)
{
	char line[4096];
	int found = 0;
	FILE *f = saved_stderr;
	fflush(stderr);
	dup2(stderr_copy, STDERR_FILENO);
	saved_stderr = NULL;
	rewind(f);
	while (fgets(line, sizeof line, f)) {
		fputs(line, stderr);
		found += strstr(line, text) != NULL;
	}
	fclose(f);
	return found;
}

struct stalloc_stats kit_stats_of(int device)
{
	struct stalloc_stats s;
	OK(stalloc_get_stats(device, &s, sizeof s));
	return s;
}

void kit_nothing_left(const char *after)
{
	stalloc_empty_cache();
	struct stalloc_stats s = kit_stats();
	for (unsigned waited = 0; fake(live)("pins") > 0;) /* Go unpins beside us */
		kit_wait(&waited, 1, "the last unpinning");
	CHECK(s.reserved == 0 && s.blocks == 0 && s.active == 0,
	      "after %s %llu bytes in %llu blocks, %llu active, %llu held", after,
	      (ull)s.allocated, (ull)s.blocks, (ull)s.active, (ull)s.reserved);
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

size_t kit_resident(void)
{
	unsigned long resident, of_files;
	FILE *f = fopen("/proc/self/statm", "r");
	CHECK(f && fscanf(f, "%*u %lu %lu", &resident, &of_files) == 2, "no /proc");
	fclose(f);
	return (resident - of_files) * (size_t)sysconf(_SC_PAGESIZE);
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

void kit_wait(unsigned *waited, unsigned ms, const char *awaited)
{
	CHECK(*waited < 60000, "%s: has not come", awaited);
	kit_sleep_ms(ms);
	*waited += ms;
}
