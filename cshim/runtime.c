/* Process-wide state: the fork guard, devices, streams, errors. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

#define PAGE 4096 /* of a larger one the kernel wipes nothing here, and there are no owners */

static const unsigned char dead;
const unsigned char *_Atomic stalloc_alive = &dead;

/* In a forked child there is none of it: a thread that owned a lock does not there, and looks
 * whether it is in one. */
struct stalloc_device stalloc_devices[STALLOC_MAX_DEVICES] __attribute__((aligned(PAGE)));
_Static_assert(sizeof stalloc_devices % PAGE == 0, "what lies behind would be wiped, too");

_Atomic int stalloc_devices_seen;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *guard_page;

/* The text lies on the heap: the loader keeps only some hundred bytes for the
 * thread-local variables of all libraries that are opened late, and one that
 * asks for more cannot be opened at all. */
enum { ERROR_SIZE = 4096 };
static __thread char *last_error;
static pthread_key_t error_key;
static pthread_once_t error_once = PTHREAD_ONCE_INIT;

static void drop_error(void *text) {
	last_error = NULL; /* what else runs at this thread's exit may fail once more */
	free(text);
}

static void make_error_key(void) { pthread_key_create(&error_key, drop_error); }

const char *stalloc_last_error(void) { return last_error ? last_error : ""; }

int stalloc_fail(int code, const char *format, ...) {
	va_list args;
	if (!last_error && (last_error = malloc(ERROR_SIZE))) {
		pthread_once(&error_once, make_error_key);
		pthread_setspecific(error_key, last_error);
	}
	if (!last_error) return code;
	va_start(args, format);
	vsnprintf(last_error, ERROR_SIZE, format, args);
	va_end(args);
	return code;
}

/* The first variable is that of torchrun, DeepSpeed, accelerate and Megatron-LM, then come
 * Slurm, MPI and Lightning; the Python package has the same list. */
long stalloc_rank(void) {
	static const char *const variables[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK"};
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *text = getenv(variables[i]);
		char *end;
		if (!text || *text < '0' || *text > '9') continue;
		long rank = strtol(text, &end, 10);
		if (!*end) return rank;
	}
	return -1;
}

const char *stalloc_log_name(char *out, size_t n) {
	long rank = stalloc_rank();
	snprintf(out, n, rank < 0 ? "stalloc" : "stalloc[%ld]", rank);
	return out;
}

static void of_sizes(sigset_t *set) {
	sigemptyset(set);
	sigaddset(set, SIGXFSZ);
}

void stalloc_hold_signal(struct stalloc_held *h) {
	sigset_t sizes, waiting;
	of_sizes(&sizes);
	pthread_sigmask(SIG_BLOCK, &sizes, &h->before);
	h->pending = sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ) == 1;
}

void stalloc_let_signal(const struct stalloc_held *h) {
	const struct timespec now = {0};
	sigset_t sizes;
	of_sizes(&sizes);
	while (!h->pending && sigtimedwait(&sizes, NULL, &now) < 0 && errno == EINTR) {
	}
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

void stalloc_log_once(_Atomic bool *key, const char *format, ...) {
	char line[4352], name[32]; /* all that can be wrong with settings */
	va_list args;
	if (atomic_exchange(key, true)) return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	struct stalloc_held held;
	stalloc_hold_signal(&held);
	fprintf(stderr, "%s: %s\n", stalloc_log_name(name, sizeof name), line);
	stalloc_let_signal(&held);
}

static void after_fork_in_child(void) {
	if (guard_page) *guard_page = 0;
}

/* MADV_WIPEONFORK covers children made without running fork handlers; the
 * handler covers kernels that do not have it. */
static void prepare(void) {
	long size = sysconf(_SC_PAGESIZE);
	unsigned char *page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool wiped = false;
	if (page == MAP_FAILED) return; /* stays dead: every allocation fails, nothing breaks */
#ifdef MADV_WIPEONFORK
	madvise(page, (size_t)size, MADV_WIPEONFORK);
	wiped = madvise(stalloc_devices, sizeof stalloc_devices, MADV_WIPEONFORK) == 0;
#endif
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++) {
		stalloc_devices[i].ordinal = i;
		stalloc_lock_prepare(&stalloc_devices[i].lock, wiped ? stalloc_devices[i].owners : NULL);
	}
	*page = 1;
	guard_page = page;
	pthread_atfork(NULL, NULL, after_fork_in_child);
	stalloc_conf_problem();
	stalloc_alive = page; /* last: other threads go ahead from here on */
}

bool stalloc_ready(void) {
	if (STALLOC_LIKELY(*stalloc_alive)) return true;
	pthread_once(&once, prepare);
	return *stalloc_alive != 0;
}

int stalloc_init(void) {
	if (!stalloc_ready())
		return stalloc_fail(STALLOC_ERR_DRIVER, "stalloc cannot be used in a forked child: CUDA does not survive a "
							"fork; start the child with the spawn method");
	const char *problem = stalloc_conf_problem();
	return problem ? stalloc_fail(STALLOC_ERR_CONF, "%s", problem) : STALLOC_OK;
}

const char *stalloc_version(void) { return STALLOC_VERSION; }

struct stalloc_stream *stalloc_stream_of(int device, void *stream) {
	if (device < 0 || device >= STALLOC_MAX_DEVICES) return NULL;
	uint64_t id = (uint64_t)(uintptr_t)stream;
	struct stalloc_device *d = &stalloc_devices[device];
	struct stalloc_stream *s = stalloc_stream_find(d, id);
	if (s) return s;
	pthread_mutex_lock(&streams_lock);
	size_t size = (sizeof *s + 63) / 64 * 64;
	if (!(s = stalloc_stream_find(d, id)) && (s = aligned_alloc(64, size))) {
		memset(s, 0, size);
		s->id = id;
		s->device = d;
		s->next = atomic_load(&d->streams);
		s->chain = atomic_load(&d->chains[stalloc_chain(id)]);
		atomic_store_explicit(&d->chains[stalloc_chain(id)], s, memory_order_release);
		atomic_store_explicit(&d->streams, s, memory_order_release);
		if (device >= atomic_load(&stalloc_devices_seen)) atomic_store(&stalloc_devices_seen, device + 1);
	}
	pthread_mutex_unlock(&streams_lock);
	return s;
}
