/* The thread's last error. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

/* The text is on the heap: the loader keeps only some hundred bytes for the thread-local variables
 * of all libraries that are opened late, and a library that needs more cannot be opened at all. */
enum { ERROR_SIZE = 4096 };
static __thread char *last_error;
static pthread_key_t error_key;
static pthread_once_t error_once = PTHREAD_ONCE_INIT;

static void drop_error(void *text) {
	last_error = NULL; /* a later handler of this thread's exit may fail, too */
	free(text);
}

static void make_error_key(void) { pthread_key_create(&error_key, drop_error); }

const char *stalloc_last_error(void) { return last_error ? last_error : ""; }

int stalloc_fail(int code, const char *format, ...) {
	va_list args;
	if (code == STALLOC_OK) return code;
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

int stalloc_check_device(int device, int least) {
	return stalloc_fail(device == least || stalloc_is_device(device) ? STALLOC_OK
									 : STALLOC_ERR_ARGUMENT,
			    "there is no device %d", device);
}
