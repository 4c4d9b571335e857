/* Memory shared between processes: see stalloc_export_block in stalloc.h.
 *
 * A token names the exporting process and one of its file descriptors for each handle; the importer
 * copies each descriptor with pidfd_getfd. So there is no server, and no process waits for another
 * that may have ended. With share:fabric the token has fabric handles in hexadecimal digits, which
 * any process on the fabric's hosts can import.
 *
 *	stalloc1 <pid> <start time> <fd>/<bytes>/<number of the handle> ...
 *	stalloc1 0 0 x<name>/<bytes>/<number of the handle> ... */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime.h"

#define PAGE ((size_t)2 << 20)
enum { NAME = sizeof((struct stalloc_exported *)0)->name }; /* bytes of a fabric handle */

/* System calls of Linux 5.3 and 5.6, with the same numbers on every architecture. */
enum { PIDFD_OPEN = 434, PIDFD_GETFD = 438 };

/* Copies a file descriptor of another process; negative: it cannot, and errno says why. */
static int copy_fd(long pid, int fd) {
	int process = (int)syscall(PIDFD_OPEN, pid, 0);
	if (process < 0) return -1;
	int copy = (int)syscall(PIDFD_GETFD, process, fd, 0), why = errno;
	close(process);
	errno = why;
	return copy;
}

#define REMEDY                                                                              \
	"share:fd takes Linux 5.6, the same user and, in containers, the same PID "        \
	"namespace and --cap-add SYS_PTRACE; leave STALLOC_CONF=share:fd out to send "      \
	"tensors by copying them"

long stalloc_export_block(const void *ptr, size_t *offset, char *token, size_t length) {
	char err[1024] = "nothing was allocated yet", first[64];
	uint64_t at = 0;
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!*stalloc_alive) snprintf(err, sizeof err, "CUDA does not survive a fork");
	if (!ptr || !offset)
		return stalloc_fail(STALLOC_ERR_ARGUMENT,
				    "ptr and offset must not be NULL");
	const char *share = stalloc_conf("share");
	int fabric = share && !strcmp(share, "fabric");
	int self = e && !fabric ? copy_fd(getpid(), STDERR_FILENO) : -1; /* whether that works */
	if (e && !fabric && self < 0 && errno != EBADF)
		return stalloc_fail(
			STALLOC_ERR_DRIVER,
			"other processes cannot take file descriptors of this one (%s): " REMEDY,
			strerror(errno));
	if (self >= 0) close(self);
	long pid = fabric ? 0 : getpid();
	int head = snprintf(first, sizeof first, "stalloc1 %ld %llu", pid,
			    fabric ? 0 : (unsigned long long)stalloc_process_start(pid));
	size_t room = (size_t)head < length ? length - (size_t)head : 0;
	int rest = e ? e->export((uint64_t)(uintptr_t)ptr, &at, room ? token + head : NULL, room,
				 err, sizeof err)
		     : STALLOC_ERR_ARGUMENT;
	if (rest < 0)
		return stalloc_fail(rest, "this block cannot be given to another process: %s", err);
	if (!fabric)
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0,
		      0); /* fails only where it is not needed */
	*offset = at;
	if ((size_t)(head + rest) < length) memcpy(token, first, (size_t)head);
	return head + rest;
}

/* Imported blocks. */
static struct import {
	struct import *next;
	stalloc_cu_addr at;
	size_t size, mapped;
	int device;
} *imports;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

size_t stalloc_imported_bytes(int device) {
	size_t sum = 0;
	pthread_mutex_lock(&lock);
	for (const struct import *i = imports; i; i = i->next)
		if (i->device == device) sum += i->size;
	pthread_mutex_unlock(&lock);
	return sum;
}

static int failed(const char *call, int code) {
	return stalloc_fail(
		code == STALLOC_CU_OUT_OF_MEMORY ? STALLOC_ERR_MEMORY : STALLOC_ERR_DRIVER,
		"%s failed with driver error %d while memory of another process was mapped", call,
		code);
}

/* Unmaps what is mapped, and frees the record. */
static int undo(const struct stalloc_driver *cu, struct import *i) {
	const char *call;
	int code = stalloc_undo(cu,
				(struct stalloc_leftover){.at = i->at,
							  .reserved = i->at ? i->size : 0,
							  .mapped = i->mapped},
				&call);
	free(i);
	return code ? failed(call, code) : STALLOC_OK;
}

/* Maps one more handle, after those that are mapped already. */
static int map(const struct stalloc_driver *cu, struct import *i, long pid,
	       struct stalloc_exported what, size_t size) {
	const char *call;
	if (pid && (what.fd = copy_fd(pid, what.fd)) < 0)
		return stalloc_fail(STALLOC_ERR_DRIVER,
				    "memory of process %ld cannot be mapped here (%s): " REMEDY,
				    pid, strerror(errno));
	int code = stalloc_map_exported(cu, i->at + i->mapped, size, &what, &call);
	if (pid) close(what.fd);
	if (code) return failed(call, code);
	i->mapped += size;
	return STALLOC_OK;
}

/* Reads a number that follows a given character; NULL: there is none. Not sscanf, which would scan
 * to the end of the token each time. */
static const char *number(const char *at, char before, unsigned long long most,
			  unsigned long long *n) {
	char *end;
	if (*at != before || !isdigit((unsigned char)at[1])) return NULL;
	errno = 0;
	*n = strtoull(at + 1, &end, 10);
	return errno || *n > most ? NULL : end;
}

/* Reads a fabric handle; NULL: it is malformed. */
static const char *name(const char *at, unsigned char out[NAME]) {
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < 2 * NAME; i++) {
		const char *digit = at[i] ? strchr(digits, tolower((unsigned char)at[i])) : NULL;
		if (!digit) return NULL;
		out[i / 2] = (unsigned char)(out[i / 2] << 4 | (digit - digits));
	}
	return at + 2 * NAME;
}

/* Reads the next handle of a token; NULL: it is malformed. */
static const char *piece(const char *at, int fabric, struct stalloc_exported *what, size_t *size) {
	unsigned long long n = 0;
	what->fd = -1;
	if (fabric)
		at = strncmp(at, " x", 2) ? NULL : name(at + 2, what->name);
	else if ((at = number(at, ' ', INT_MAX, &n)))
		what->fd = (int)n;
	if (!at || !(at = number(at, '/', SIZE_MAX, &n)) || n == 0 || n % PAGE) return NULL;
	*size = (size_t)n;
	return number(at, '/', ULLONG_MAX, &n);
}

/* Maps all handles of a token. On an error it frees the record. */
static int import(const struct stalloc_driver *cu, struct import *i, long pid, const char *pieces,
		  int device) {
	const struct stalloc_cu_access access = {{STALLOC_CU_LOCATION_DEVICE, device},
						 STALLOC_CU_ACCESS_READ_WRITE};
	int result = STALLOC_OK, code = cu->cuInit(0);
	struct stalloc_exported what;
	size_t size;
	if (code)
		result = failed("cuInit", code);
	else if ((code = cu->cuMemAddressReserve(&i->at, i->size, PAGE, 0, 0)))
		result = failed("cuMemAddressReserve", code);
	for (const char *at = pieces; *at && result == STALLOC_OK;) {
		at = piece(at, !pid, &what, &size);
		result = map(cu, i, pid, what, size);
	}
	if (result == STALLOC_OK && (code = cu->cuMemSetAccess(i->at, i->size, &access, 1)))
		result = failed("cuMemSetAccess", code);
	if (result != STALLOC_OK) {
		char why[512];
		snprintf(why, sizeof why, "%s", stalloc_last_error());
		undo(cu, i);
		return stalloc_fail(result, "%s", why);
	}
	return STALLOC_OK;
}

void *stalloc_import_block(const char *token, int device) {
	char err[512];
	long pid;
	unsigned long long start;
	int head = 0;
	struct stalloc_exported what;
	size_t size, sum = 0;
	if (!token || device < 0 || sscanf(token, "stalloc1 %ld %llu%n", &pid, &start, &head) != 2)
		head = 0;
	const char *pieces = token + head, *end = head ? pieces : NULL;
	while (end && *end && (end = piece(end, !pid, &what, &size)))
		if (__builtin_add_overflow(sum, size, &sum)) end = NULL;
	if (!end || !sum) {
		stalloc_fail(STALLOC_ERR_ARGUMENT,
			     "this is no token of stalloc_export_block, or no device %d", device);
		return NULL;
	}
	if (pid && stalloc_process_start(pid) != start) {
		stalloc_fail(STALLOC_ERR_ARGUMENT,
			     "process %ld, whose memory the token names, has ended or is in "
			     "another container: " REMEDY,
			     pid);
		return NULL;
	}
	const struct stalloc_driver *cu =
		stalloc_ready() ? stalloc_get_driver(err, sizeof err) : NULL;
	struct import *i = calloc(1, sizeof *i);
	if (!cu || !i) {
		stalloc_fail(STALLOC_ERR_DRIVER, "%s",
			     !*stalloc_alive ? "CUDA does not survive a fork"
			     : cu	     ? "the host has no memory left"
					     : err);
		free(i);
		return NULL;
	}
	i->size = sum;
	i->device = device;
	stalloc_tidy(cu);
	if (import(cu, i, pid, pieces, device) != STALLOC_OK) return NULL;
	pthread_mutex_lock(&lock);
	i->next = imports;
	imports = i;
	pthread_mutex_unlock(&lock);
	return (void *)(uintptr_t)i->at;
}

int stalloc_end_import(void *ptr) {
	char err[512];
	if (!*stalloc_alive) return STALLOC_OK;
	pthread_mutex_lock(&lock);
	struct import **at = &imports, *i;
	while ((i = *at) && i->at != (uintptr_t)ptr) at = &i->next;
	if (i) *at = i->next;
	pthread_mutex_unlock(&lock);
	if (!i) return stalloc_fail(STALLOC_ERR_ARGUMENT, "nothing is imported at %p", ptr);
	return undo(stalloc_get_driver(err, sizeof err), i);
}
