#include "recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *path, size_t line, const char *what) {
	fprintf(stderr, "embed_c: %s:%zu: %s\n", path, line, what);
	exit(1);
}

/* The file's text; *child is gzip's process, 0 if the file is plain. */
static FILE *open_text(const char *path, pid_t *child) {
	size_t n = strlen(path);
	int ends[2];
	*child = 0;
	if (access(path, R_OK) != 0) fail(path, 0, strerror(errno));
	if (n < 3 || strcmp(path + n - 3, ".gz") != 0) return fopen(path, "r");
	if (pipe(ends) != 0 || (*child = fork()) < 0) return NULL;
	if (*child == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		execlp("gzip", "gzip", "-dc", "--", path, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	return fdopen(ends[0], "r");
}

static void add(struct recording *r, struct event e) {
	static size_t room;
	if (r->count == room) {
		room = room ? 2 * room : 4096;
		r->events = realloc(r->events, room * sizeof *r->events);
		if (!r->events) abort();
	}
	r->events[r->count++] = e;
	if (e.kind == REQUEST && e.block >= r->blocks) r->blocks = e.block + 1;
}

/* What is neither a request, nor a free asked for, nor a step mark is passed
 * over: a free completes by itself in a program that lives. */
static void parse(struct recording *r, const char *text, const char *path, size_t line) {
	uint64_t size;
	uint32_t block;
	switch (text[0]) {
	case 'a':
		if (sscanf(text, "a,%" SCNu32 ",%" SCNu64 ",", &block, &size) != 2)
			fail(path, line, "expected a,<number>,<bytes>,...");
		add(r, (struct event){REQUEST, block, size});
		break;
	case 'r':
		if (sscanf(text, "r,%" SCNu32 ",", &block) != 1)
			fail(path, line, "expected r,<number>,...");
		if (block >= r->blocks)
			fail(path, line, "expected the number of a block that was asked for");
		add(r, (struct event){FREE, block, 0});
		break;
	case '#':
		if (!strncmp(text, "# step ", 7) || !strcmp(text, "# end\n"))
			add(r, (struct event){STEP, 0, 0});
		break;
	case 'f':
	case 's':
	case 'e': break;
	default: fail(path, line, "expected a line that begins with a, r, f, s, e or #");
	}
}

struct recording recording_read(const char *path) {
	struct recording r = {0};
	char text[512];
	pid_t child;
	int status = 0;
	size_t line = 0;
	FILE *in = open_text(path, &child);
	if (!in) fail(path, 0, strerror(errno));
	while (fgets(text, sizeof text, in)) {
		line++;
		if (!strchr(text, '\n')) fail(path, line, "the file ends in the middle of a line");
		parse(&r, text, path, line);
	}
	fclose(in);
	if (child && (waitpid(child, &status, 0) != child || status != 0))
		fail(path, line, "gzip could not read it");
	if (!r.count) fail(path, line, "expected requests");
	int steps = 0;
	for (r.last = r.count; r.last > 0 && (steps += r.events[r.last - 1].kind == STEP) < 2;
	     r.last--) {
	}
	return r;
}
