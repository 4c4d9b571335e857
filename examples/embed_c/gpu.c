#include "gpu.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*push)(void *);
	int (*stream)(void **, unsigned);
	int (*write)(unsigned long long, const void *, size_t);
	int (*read)(void *, unsigned long long, size_t);
} cu;
static void *context;

static void ok(int code, const char *call) {
	if (!code) return;
	fprintf(stderr, "embed_c: %s failed with driver error %d\n", call, code);
	exit(1);
}

static void *symbol(void *library, const char *name) {
	void *found = dlsym(library, name);
	if (found) return found;
	fprintf(stderr, "embed_c: the driver library has no function %s\n", name);
	exit(1);
}

void gpu_open(const char *path) {
	int device;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "embed_c: %s; `make build` builds the simulated driver\n",
			dlerror());
		exit(1);
	}
	*(void **)&cu.init = symbol(library, "cuInit");
	*(void **)&cu.device = symbol(library, "cuDeviceGet");
	*(void **)&cu.retain = symbol(library, "cuDevicePrimaryCtxRetain");
	*(void **)&cu.push = symbol(library, "cuCtxPushCurrent_v2");
	*(void **)&cu.stream = symbol(library, "cuStreamCreate");
	*(void **)&cu.write = symbol(library, "cuMemcpyHtoD_v2");
	*(void **)&cu.read = symbol(library, "cuMemcpyDtoH_v2");
	ok(cu.init(0), "cuInit");
	ok(cu.device(&device, 0), "cuDeviceGet");
	ok(cu.retain(&context, device), "cuDevicePrimaryCtxRetain");
}

void gpu_thread(void) { ok(cu.push(context), "cuCtxPushCurrent"); }

void *gpu_new_stream(void) {
	void *stream;
	ok(cu.stream(&stream, 1), "cuStreamCreate");
	return stream;
}

void gpu_write(void *device, const void *host, size_t n) {
	ok(cu.write((uintptr_t)device, host, n), "cuMemcpyHtoD");
}

void gpu_read(void *host, const void *device, size_t n) {
	ok(cu.read(host, (uintptr_t)device, n), "cuMemcpyDtoH");
}
