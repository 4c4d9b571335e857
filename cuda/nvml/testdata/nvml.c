/* A libnvidia-ml.so.1 for tests: one GPU with the UUID of the simulated driver's
 * first device, and three processes on it, one of which is whoever asks. Built
 * with -DOLD it is a driver of years ago, with -DFOREIGN something that only has
 * the name, with -DFAILING one whose kernel module is not loaded. */
#include <string.h>
#include <unistd.h>

#define UUID "GPU-66616b65-0000-0000-0000-000000000000"
#define GIB (1ull << 30)
enum { SUCCESS = 0, INVALID = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

#ifdef FOREIGN
int something_else(void) { return SUCCESS; }
#else

static int calls_before_init = 1;

#ifdef OLD
int nvmlInit(void) {
#else
int nvmlInit_v2(void) {
#endif
#ifdef FAILING
	return DRIVER_NOT_LOADED;
#endif
	calls_before_init = 0;
	return SUCCESS;
}

#ifndef OLD
const char *nvmlErrorString(int code) {
	return code == NOT_FOUND	   ? "Not Found"
	       : code == DRIVER_NOT_LOADED ? "Driver Not Loaded"
					   : "Unknown Error";
}
#endif

struct device {
	char name[8];
};
static struct device gpu = {"gpu 0"};

static int give(struct device **out, int found) {
	if (calls_before_init) return 1; /* uninitialised */
	if (!found) return NOT_FOUND;
	*out = &gpu;
	return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
	return give(out, !strcmp(uuid, UUID));
}

#ifdef OLD
struct process {
	unsigned pid;
	unsigned long long used;
};
int nvmlDeviceGetComputeRunningProcesses(struct device *d, unsigned *count, struct process *out) {
#else
struct process {
	unsigned pid;
	unsigned long long used;
	unsigned instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *count,
					    struct process *out) {
#endif
	unsigned room = *count;
	if (d != &gpu) return INVALID;
	*count = 3;
	if (room < 3) return INSUFFICIENT_SIZE;
	out[0] = (struct process){.pid = 4194200, .used = 2 * GIB}; /* above any real number */
	out[1] = (struct process){.pid = (unsigned)getpid(), .used = 8 * GIB};
	out[2] = (struct process){.pid = 1, .used = 60 * GIB};
	return SUCCESS;
}
#endif
