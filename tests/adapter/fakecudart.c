/* A stand-in for libcudart.so.12 and 13: as much of CUDA's runtime as PyTorch's own allocator
 * needs to serve from the host's memory. One device of 1 GiB, where all work is done at once. What
 * else PyTorch's library links to, tests/torch_headers.py adds as functions that fail. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { OK = 0, NO_MEMORY = 2 };
static const size_t total = (size_t)1 << 30;
static size_t used;

API size_t fake_used(void) { return used; }

API int cudaGetDevice(int *d) { *d = 0; return OK; }
API int cudaSetDevice(int d) { return d == 0 ? OK : 101; }
API int cudaGetDeviceCount(int *n) { *n = 1; return OK; }
API int cudaGetDeviceProperties(void *p, int d)
{
	(void)d;
	memset(p, 0, 512);
	memcpy((char *)p + 288, &total, sizeof total);
	return OK;
} /* totalGlobalMem */
API int cudaGetDeviceProperties_v2(void *p, int d)
{
	return cudaGetDeviceProperties(p, d);
} /* CUDA 12's name */
API int cudaDeviceSynchronize(void) { return OK; }
API int cudaDriverGetVersion(int *v) { *v = 13000; return OK; }
API int cudaGetLastError(void) { return OK; }
API const char *cudaGetErrorName(int e)
{
	return e == NO_MEMORY ? "cudaErrorMemoryAllocation" : "cudaError";
}
API const char *cudaGetErrorString(int e) { return cudaGetErrorName(e); }
API int cudaMemGetInfo(size_t *free, size_t *all) { *free = total - used; *all = total; return OK; }
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -1;
	return OK;
}
API int cudaThreadExchangeStreamCaptureMode(int *mode) { (void)mode; return OK; }
API int cudaStreamIsCapturing(void *s, int *status) { (void)s; *status = 0; return OK; }

API int cudaMalloc(void **out, size_t size)
{
	if (used + size > total) return NO_MEMORY;
	size_t *block = aligned_alloc(4096, size + 4096);
	if (!block) return NO_MEMORY;
	*block = size;
	used += size;
	*out = (char *)block + 4096;
	return OK;
}
API int cudaFree(void *p)
{
	if (!p) return OK;
	size_t *block = (size_t *)((char *)p - 4096);
	used -= *block;
	free(block);
	return OK;
}
API int cudaMemcpy(void *to, const void *from, size_t n, int kind)
{
	(void)to;
	(void)from;
	(void)n;
	(void)kind;
	return OK;
}
API int cudaStreamCreateWithPriority(void **s, unsigned flags, int priority)
{
	static uintptr_t n = 0x1000;
	(void)flags;
	(void)priority;
	*s = (void *)(n += 64);
	return OK;
}
API int cudaStreamQuery(void *s) { (void)s; return OK; }
API int cudaStreamSynchronize(void *s) { (void)s; return OK; }
API int cudaEventCreateWithFlags(void **e, unsigned flags)
{
	(void)flags;
	*e = malloc(1);
	return OK;
}
API int cudaEventRecord(void *e, void *s) { (void)e; (void)s; return OK; }
API int cudaEventQuery(void *e) { (void)e; return OK; }
API int cudaEventSynchronize(void *e) { (void)e; return OK; }
API int cudaEventDestroy(void *e) { free(e); return OK; }
