// What is mapped on one device, as libstalloc tells it: handle by handle, at each address that a
// handle is mapped at, and plain driver allocations.
//
// Trackers that register memory with a network (PyTorch's hook of NCCL, torchcomms) are told of each
// as a segment that is allocated and freed whole. PyTorch's hook knows no other event; it wants to
// hear of the end of exactly what it has registered, by its address, and throws if it has not.
// And each is one allocation of the driver, which every version of NCCL registers right.
#ifndef STALLOC_TORCH_MAPPED_H
#define STALLOC_TORCH_MAPPED_H

#include <cstddef>
#include <map>
#include <mutex>

#include "stalloc.h"

namespace stalloc {

class Mapped {
      public:
	// tell(allocated, address, size) is called for what can be used now (allocated), and before it
	// no longer can. No other change of this device is looked at meanwhile.
	template <typename Tell> void change(size_t at, size_t size, int change, Tell tell) {
		std::lock_guard<std::recursive_mutex> hold(lock_);
		if (change == STALLOC_MAPPED) {
			pieces_[at] = {size, false};
			return;
		}
		auto piece = pieces_.lower_bound(at);
		while (piece != pieces_.end() && piece->first < at + size) {
			auto &[from, what] = *piece;
			if (change == STALLOC_USABLE) {
				if (!what.usable) tell(what.usable = true, from, what.size);
				++piece;
			} else {
				if (what.usable) tell(false, from, what.size);
				piece = pieces_.erase(piece);
			}
		}
	}
	// tell(address, size) is called for all that can be used, by address; as above.
	template <typename Tell> void each(Tell tell) const {
		std::lock_guard<std::recursive_mutex> hold(lock_);
		for (const auto &[at, what] : pieces_)
			if (what.usable) tell(at, what.size);
	}
	std::unique_lock<std::recursive_mutex> alone() { return std::unique_lock<std::recursive_mutex>(lock_); }

      private:
	struct Kind {
		size_t size;
		bool usable;
	};
	mutable std::recursive_mutex lock_; // the books' lock may be held before, never taken after
	std::map<size_t, Kind> pieces_;
};

} // namespace stalloc
#endif
