/* Handle values that come again, and work that waits to be told. Says "held" when all is
 * well. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "../../fake.h"

enum { SIZE = 2 << 20 };

static int runs;
static void kernel(void *at, size_t size, unsigned long tag)
{
	assert(size == SIZE && ((char *)at)[0] == 0);
	runs += (int)tag;
}

static stalloc_cu_handle create(void)
{
	struct stalloc_cu_prop prop = {.type = STALLOC_CU_ALLOCATION_PINNED,
				       .location = {STALLOC_CU_LOCATION_DEVICE, 0}};
	stalloc_cu_handle h;
	assert(cuMemCreate(&h, SIZE, &prop, 0) == 0);
	return h;
}

static stalloc_cu_addr usable_memory(stalloc_cu_handle h)
{
	struct stalloc_cu_access access = {{STALLOC_CU_LOCATION_DEVICE, 0},
					   STALLOC_CU_ACCESS_READ_WRITE};
	stalloc_cu_addr at;
	assert(cuMemAddressReserve(&at, SIZE, 0, 0, 0) == 0 &&
	       cuMemMap(at, SIZE, 0, h, 0) == 0);
	assert(cuMemSetAccess(at, SIZE, &access, 1) == 0);
	return at;
}

static void handles(void)
{
	stalloc_cu_handle first = create(), other = create();
	assert(first != other && fakecuda_most(0) == 2 * SIZE);
	assert(cuMemRelease(first) == 0 && cuMemRelease(first) != 0);
	assert(fakecuda_most(0) == 2 * SIZE && fakecuda_most(0) == SIZE);
	assert(create() == first && cuMemRelease(first) == 0 && cuMemRelease(other) == 0);
}

int main(int count, char **arguments)
{
	void *context, *stream, *before, *behind;
	assert(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0);
	assert(cuCtxPushCurrent_v2(context) == 0);
	handles();
	void *at = (void *)(size_t)usable_memory(create());
	assert(cuStreamCreate(&stream, 1) == 0);
	assert(cuEventCreate(&before, 2) == 0 && cuEventCreate(&behind, 2) == 0);
	assert(cuEventRecord(before, stream) == 0);
	for (int i = 0; i < 3; i++)
		assert(fakecuda_launch(stream, 0, kernel, at, SIZE, 1) == 0);
	assert(cuEventRecord(behind, stream) == 0);
	assert(runs == 0 && cuEventQuery(before) == 0 &&
	       cuEventQuery(behind) == STALLOC_CU_NOT_READY);
	assert(fakecuda_pass(7, 2) == 1 && runs == 2 &&
	       cuEventQuery(behind) == STALLOC_CU_NOT_READY);
	fakecuda_pass_stream(stream);
	assert(runs == 3 && cuEventQuery(behind) == 0 && fakecuda_pass(7, 1) == 0);
	assert(fakecuda_launch(stream, 0, kernel, at, SIZE, 1) == 0 &&
	       cuStreamDestroy_v2(stream) == 0);
	assert(runs == 3 && cuCtxSynchronize() == 0 && runs == 4);
	assert(fakecuda_launch(stream, 0, kernel, at, SIZE, 1) != 0); /* it is gone */
	puts("held");
	fflush(stdout);
	if (count > 1 &&
	    !strcmp(arguments[1], "unmapped")) { /* work that comes too late */
		assert(fakecuda_launch(NULL, 0, kernel, at, SIZE, 1) == 0);
		assert(cuMemUnmap((stalloc_cu_addr)(size_t)at, SIZE) == 0);
		fakecuda_pass_stream(NULL);
	}
	return 0;
}
