/* Lines on standard error, and the rank that they begin with. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime.h"

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
