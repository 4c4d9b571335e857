/* A double of libtorch_cuda.so: the functions that a recording asks for blocks with. */
#include <stdint.h>

int polled, fails;

int aoti_torch_cuda_caching_allocator_raw_alloc(uint64_t bytes, void **block)
{
	*block = &polled;
	return fails || bytes == 0;
}

int aoti_torch_cuda_caching_allocator_raw_delete(void *block)
{
	__atomic_fetch_add(&polled, block == &polled, __ATOMIC_RELAXED);
	return 0;
}
