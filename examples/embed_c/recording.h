/* A recorded training run: tests/traces, and the documentation of the Go package
 * stalloc/trace for the format. */
#ifndef EMBED_RECORDING_H
#define EMBED_RECORDING_H

#include <stddef.h>
#include <stdint.h>

enum kind { REQUEST, FREE, STEP };

struct event {
	enum kind kind;
	uint32_t block; /* its number in the recording */
	uint64_t size;	/* REQUEST: bytes */
};

struct recording {
	struct event *events;
	size_t count;
	size_t last;	 /* where the events of the last step begin */
	uint32_t blocks; /* numbers are below this */
};

/* Reads a file, through gzip if its name ends in .gz. Ends the process with file,
 * line and what was expected if that is not possible. */
struct recording recording_read(const char *path);

#endif
