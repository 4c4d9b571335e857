/* Log lines on standard error, and the rank in their prefix. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime.h"

/* The variables of torchrun, DeepSpeed, accelerate and Megatron-LM (RANK), then of Slurm, MPI and
 * Lightning. The Python package has the same list. */
long stalloc_rank(void) {
	static const char *const variables[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK",
						"PMI_RANK", "LOCAL_RANK"};
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

static void only_sigxfsz(sigset_t *set) {
	sigemptyset(set);
	sigaddset(set, SIGXFSZ);
}

void stalloc_block_sigxfsz(struct stalloc_sigxfsz *h) {
	sigset_t sizes, waiting;
	only_sigxfsz(&sizes);
	pthread_sigmask(SIG_BLOCK, &sizes, &h->before);
	h->pending = sigpending(&waiting) == 0 && sigismember(&waiting, SIGXFSZ) == 1;
}

void stalloc_restore_sigxfsz(const struct stalloc_sigxfsz *h) {
	const struct timespec now = {0};
	sigset_t sizes;
	only_sigxfsz(&sizes);
	while (!h->pending && sigtimedwait(&sizes, NULL, &now) < 0 && errno == EINTR) {
	}
	pthread_sigmask(SIG_SETMASK, &h->before, NULL);
}

void stalloc_log_once(_Atomic bool *key, const char *format, ...) {
	char line[4352], name[32]; /* room for all mistakes in the settings */
	va_list args;
	if (atomic_exchange(key, true)) return;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	struct stalloc_sigxfsz held;
	stalloc_block_sigxfsz(&held);
	fprintf(stderr, "%s: %s\n", stalloc_log_name(name, sizeof name), line);
	stalloc_restore_sigxfsz(&held);
}
