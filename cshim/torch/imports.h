// Memory of other processes that use stalloc, mapped here while a tensor uses it.
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

// The prefix of stalloc's own tokens.
constexpr const char kToken[] = "stalloc1 ";

class Imports {
      public:
	explicit Imports(const Library &library) : library_(library) {}

	// The memory of a token on a device. While somebody holds it, all callers get the same
	// mapping. NULL: it cannot be imported, and libstalloc's last error says why.
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
		there = std::shared_ptr<void>(
			at, [this, device, token](void *gone) { end(gone, device, token); });
		known = there;
		return there;
	}

      private:
	const Library &library_;
	std::mutex lock_;
	std::map<std::pair<c10::DeviceIndex, std::string>, std::weak_ptr<void>> known_;

	// The last tensor is gone, but its work may still run: wait for it, as PyTorch's allocator
	// does.
	void end(void *at, c10::DeviceIndex device, const std::string &token) {
		try {
			c10::cuda::CUDAGuard guard(device);
			(void)cudaDeviceSynchronize(); // not c10's, which may take the GIL
		} catch (const std::exception
				 &) { // CUDA has shut down or failed: no work is running
		}
		library_.end_import(at);
		std::lock_guard<std::mutex> hold(lock_);
		auto known = known_.find({device, token});
		if (known != known_.end() && known->second.expired()) known_.erase(known);
	}
};

} // namespace stalloc
#endif
