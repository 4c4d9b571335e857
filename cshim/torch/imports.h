// Memory of other processes that use stalloc, mapped here as long as a tensor lies in it.
#ifndef STALLOC_TORCH_IMPORTS_H
#define STALLOC_TORCH_IMPORTS_H

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "library.h"

namespace stalloc {

// What of a token is stalloc's own kind.
constexpr const char kToken[] = "stalloc1 ";

class Imports {
      public:
	explicit Imports(const Library &library) : library_(library) {}

	// The memory that a token names, for a device: the same for all that ask while somebody has it.
	// NULL: it cannot be had, and libstalloc's last error says why.
	std::shared_ptr<void> get(const std::string &token, c10::DeviceIndex device) {
		std::lock_guard<std::mutex> hold(lock_);
		std::weak_ptr<void> &known = known_[{device, token}];
		std::shared_ptr<void> there = known.lock();
		if (there) return there;
		void *at = library_.import_block(token.c_str(), device);
		if (!at) {
			known_.erase({device, token});
			return nullptr;
		}
		there = std::shared_ptr<void>(at, [this, device, token](void *gone) { end(gone, device, token); });
		known = there;
		return there;
	}

      private:
	const Library &library_;
	std::mutex lock_;
	std::map<std::pair<c10::DeviceIndex, std::string>, std::weak_ptr<void>> known_;

	// The last tensor is gone; its work may not be. That is how PyTorch's own allocator does it.
	void end(void *at, c10::DeviceIndex device, const std::string &token) {
		try {
			c10::cuda::CUDAGuard guard(device);
			(void)cudaDeviceSynchronize(); // not c10's, which may take the GIL
		} catch (const std::exception &) { // CUDA is gone, or broken: nothing is at work
		}
		library_.end_import(at);
		std::lock_guard<std::mutex> hold(lock_);
		auto known = known_.find({device, token});
		if (known != known_.end() && known->second.expired()) known_.erase(known);
	}
};

} // namespace stalloc
#endif
