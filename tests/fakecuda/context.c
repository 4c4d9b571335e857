/* Devices, their primary contexts, and each thread's stack of contexts. */
#include "fake.h"

#include <stdio.h>
#include <string.h>

static int init_done;
static struct context {
	int uses;
} contexts[MAX_DEVICES];

/* Reset cannot reach other threads' stacks, so a stack belongs to an epoch. */
#define MAX_DEPTH 64 /* a pop that fails leaves one more */
static int epoch;
static _Thread_local struct {
	int epoch, depth;
	struct context *at[MAX_DEPTH];
} stack;

static struct context *top(void)
{
	if (stack.epoch != epoch) {
		stack.epoch = epoch;
		stack.depth = 0;
	}
	return stack.depth > 0 ? stack.at[stack.depth - 1] : NULL;
}

int device_exists(int device)
{
	return device >= 0 && device < settings.devices;
}

static int valid_context(const struct context *ctx)
{
	return ctx >= contexts && ctx < contexts + settings.devices &&
	       ctx->uses > 0;
}

int initialised(void)
{
	return init_done;
}

int current_device(void)
{
	struct context *ctx = top();
	return ctx != NULL && ctx->uses > 0 ? (int)(ctx - contexts) : -1;
}

void context_reset(void)
{
	init_done = 0;
	epoch++;
	memset(contexts, 0, sizeof contexts);
}

long context_live(void)
{
	long live = 0;
	for (int i = 0; i < MAX_DEVICES; i++)
		live += contexts[i].uses;
	return live;
}

int cuInit(unsigned int flags)
{
	BEGIN(cuInit, NEED_NOTHING);
	if (flags != 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (settings.devices == 0)
		return leave(100); /* CUDA_ERROR_NO_DEVICE */
	init_done = 1;
	return leave(0);
}

int cuDriverGetVersion(int *version)
{
	BEGIN(cuDriverGetVersion, NEED_NOTHING);
	if (version == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	*version = 13000;
	return leave(0);
}

int cuDeviceGetCount(int *count)
{
	BEGIN(cuDeviceGetCount, NEED_INIT);
	if (count == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	*count = (int)settings.devices;
	return leave(0);
}

int cuDeviceGet(int *dev, int ordinal)
{
	BEGIN(cuDeviceGet, NEED_INIT);
	if (dev == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(ordinal))
		return leave(STALLOC_CU_INVALID_DEVICE);
	*dev = ordinal;
	return leave(0);
}

int cuDeviceGetName(char *name, int len, int dev)
{
	BEGIN(cuDeviceGetName, NEED_INIT);
	if (name == NULL || len <= 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(dev))
		return leave(STALLOC_CU_INVALID_DEVICE);
	snprintf(name, (size_t)len, "fake CUDA device %d", dev);
	return leave(0);
}

/* "fake" and the device's number, so that a test can tell whose it is. */
int cuDeviceGetUuid_v2(struct stalloc_cu_uuid *uuid, int dev)
{
	BEGIN(cuDeviceGetUuid, NEED_INIT);
	if (uuid == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(dev))
		return leave(STALLOC_CU_INVALID_DEVICE);
	memset(uuid, 0, sizeof *uuid);
	memcpy(uuid->bytes, "fake", 4);
	uuid->bytes[15] = (unsigned char)dev;
	return leave(0);
}

int cuDeviceGetAttribute(int *value, int attribute, int dev)
{
	BEGIN(cuDeviceGetAttribute, NEED_INIT);
	if (value == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(dev))
		return leave(STALLOC_CU_INVALID_DEVICE);
	switch (attribute) {
	case STALLOC_CU_ATTRIBUTE_VMM:
		*value = 1;
		return leave(0);
	case STALLOC_CU_ATTRIBUTE_RDMA:
		*value = settings.rdma > 0;
		return leave(0);
	case STALLOC_CU_ATTRIBUTE_FD:
		*value = settings.fd > 0;
		return leave(0);
	case STALLOC_CU_ATTRIBUTE_FABRIC:
		*value = settings.fabric > 0;
		return leave(0);
	}
	return leave(STALLOC_CU_INVALID_VALUE);
}

int cuDeviceCanAccessPeer(int *can, int dev, int peer)
{
	BEGIN(cuDeviceCanAccessPeer, NEED_INIT);
	if (can == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(dev) || !device_exists(peer))
		return leave(STALLOC_CU_INVALID_DEVICE);
	*can = dev != peer && settings.peers;
	return leave(0);
}

int cuDevicePrimaryCtxRetain(void **ctx, int dev)
{
	BEGIN(cuDevicePrimaryCtxRetain, NEED_INIT);
	if (ctx == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(dev))
		return leave(STALLOC_CU_INVALID_DEVICE);
	contexts[dev].uses++;
	*ctx = &contexts[dev];
	return leave(0);
}

int cuDevicePrimaryCtxRelease_v2(int dev)
{
	BEGIN(cuDevicePrimaryCtxRelease, NEED_INIT);
	if (!device_exists(dev))
		return leave(STALLOC_CU_INVALID_DEVICE);
	if (contexts[dev].uses == 0)
		return leave(STALLOC_CU_INVALID_CONTEXT);
	contexts[dev].uses--;
	return leave(0);
}

int cuCtxPushCurrent_v2(void *ctx)
{
	BEGIN(cuCtxPushCurrent, NEED_INIT);
	if (ctx == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!valid_context(ctx))
		return leave(STALLOC_CU_INVALID_CONTEXT);
	top(); /* empties a stack from before a reset */
	if (stack.depth == MAX_DEPTH)
		fatal("context stack", "pushes without pops");
	stack.at[stack.depth++] = ctx;
	return leave(0);
}

int cuCtxPopCurrent_v2(void **ctx)
{
	BEGIN(cuCtxPopCurrent, NEED_INIT);
	struct context *popped = top();
	if (popped == NULL)
		return leave(STALLOC_CU_INVALID_CONTEXT);
	stack.depth--;
	if (ctx != NULL)
		*ctx = popped;
	return leave(0);
}

int cuCtxGetCurrent(void **ctx)
{
	BEGIN(cuCtxGetCurrent, NEED_INIT);
	if (ctx == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	*ctx = top();
	return leave(0);
}

int cuGetErrorName(int code, const char **name)
{
	static const struct {
		int code;
		const char *name;
	} known[] = {
		{0, "CUDA_SUCCESS"},
		{1, "CUDA_ERROR_INVALID_VALUE"},
		{2, "CUDA_ERROR_OUT_OF_MEMORY"},
		{3, "CUDA_ERROR_NOT_INITIALIZED"},
		{4, "CUDA_ERROR_DEINITIALIZED"},
		{100, "CUDA_ERROR_NO_DEVICE"},
		{101, "CUDA_ERROR_INVALID_DEVICE"},
		{201, "CUDA_ERROR_INVALID_CONTEXT"},
		{400, "CUDA_ERROR_INVALID_HANDLE"},
		{600, "CUDA_ERROR_NOT_READY"},
		{700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{719, "CUDA_ERROR_LAUNCH_FAILED"},
		{801, "CUDA_ERROR_NOT_SUPPORTED"},
		{900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
		{907, "CUDA_ERROR_CAPTURED_EVENT"},
		{999, "CUDA_ERROR_UNKNOWN"},
	};
	BEGIN(cuGetErrorName, NEED_NOTHING);
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (known[i].code != code)
			continue;
		*name = known[i].name;
		return leave(0);
	}
	*name = NULL;
	return leave(STALLOC_CU_INVALID_VALUE);
}
