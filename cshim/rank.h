/* Which process of a distributed program this is, for lines of the log. */
#ifndef STALLOC_RANK_H
#define STALLOC_RANK_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* What lines begin with: "stalloc", of several ranks "stalloc[3]", as the launcher
 * says in the environment. The first variable is that of torchrun, DeepSpeed,
 * accelerate and Megatron-LM, then come Slurm, MPI and Lightning; the Python
 * package has the same list. */
static inline const char *stalloc_log_name(char *out, size_t n) {
	static const char *const variables[] = {"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK"};
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *text = getenv(variables[i]);
		char *end;
		if (!text || *text < '0' || *text > '9') continue;
		long rank = strtol(text, &end, 10);
		if (*end) continue;
		snprintf(out, n, "stalloc[%ld]", rank);
		return out;
	}
	snprintf(out, n, "stalloc");
	return out;
}

#endif
