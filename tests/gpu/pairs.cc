// Requests and frees as a tensor's storage makes them, without a tensor or Python around them:
// test_latency.py times PyTorch's allocators with it. The allocator comes from PyTorch's hooks,
// whose header needs no CUDA toolkit.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

// Does one step: operation i asks for sizes[i] bytes into place places[i], which must be empty,
// or, if sizes[i] is 0, frees what is there. All places are empty at the end. Returns the time
// in nanoseconds, or -1 after an error.
extern "C" double stalloc_test_step(const int64_t *places, const int64_t *sizes, int64_t count,
				    int64_t blocks) try {
	std::vector<c10::DataPtr> held(blocks);
	c10::Allocator *allocator = at::detail::getCUDAHooks().getCUDADeviceAllocator();
	const auto begin = std::chrono::steady_clock::now();
	for (int64_t i = 0; i < count; i++) {
		if (sizes[i])
			held[places[i]] = allocator->allocate(sizes[i]);
		else
			held[places[i]].clear();
	}
	const auto end = std::chrono::steady_clock::now();
	return std::chrono::duration<double, std::nano>(end - begin).count();
} catch (const std::exception &) {
	return -1;
}
