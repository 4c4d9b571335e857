// What is mapped on one device, as libstalloc reports it: each handle at each of its addresses, and
// plain driver allocations.
//
// Trackers that register memory with a network (PyTorch's NCCL hook, torchcomms) see each mapping
// as a segment that is allocated and freed whole. PyTorch's hook understands no other event; it
// must see the end of exactly what it has registered, by address, and throws otherwise. Each
// mapping is one driver allocation, which every version of NCCL can register.
#ifndef STALLOC_TORCH_MAPPED_H
#define STALLOC_TORCH_MAPPED_H

#include <cstddef>
#include <map>
#include <mutex>

#include "stalloc.h"

namespace stalloc {

class Mapped {
      public:
	// Calls tell(allocated, address, size) when memory has become usable (allocated) and before
	// it stops being so. Changes of one device are handled one at a time.
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
	// Calls tell(address, size) for all usable memory, by address.
	template <typename Tell> void each(Tell tell) const {
		std::lock_guard<std::recursive_mutex> hold(lock_);
		for (const auto &[at, what] : pieces_)
			if (what.usable) tell(at, what.size);
	}
	std::unique_lock<std::recursive_mutex> hold_lock() {
		return std::unique_lock<std::recursive_mutex>(lock_);
	}

      private:
	struct Kind {
		size_t size;
		bool usable;
	};
	mutable std::recursive_mutex lock_; // taken after the books' lock, never before
	std::map<size_t, Kind> pieces_;
};

} // namespace stalloc
#endif
