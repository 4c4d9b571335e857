// Where the memory lies that snapshots and memory history tell of.
//
// libstalloc stitches: the same memory lies here now and there later. So a place is where a
// block is or has been, and those left longest go first when all of them would be more than
// what is reserved. PyTorch's viewer goes back through a history event by event and wants a
// segment around each block at any time: places come and go with events as segments do.
#ifndef STALLOC_TORCH_PLACES_H
#define STALLOC_TORCH_PLACES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace stalloc {

struct Place {
	size_t size;
	void *stream;
	uint64_t left; // in what order blocks have left; 0: one is there
};

// Places of one device. `tell(mapped, address, size, stream)` is called for what comes (mapped)
// and goes. Its owner's lock is held.
class Places {
      public:
	// A block comes. No live block overlaps it.
	template <typename Tell> void enter(size_t at, size_t size, void *stream, Tell tell) {
		const size_t end = at + size;
		top_ = std::max(top_, end);
		size_t known = at; // up to here memory of this stream is told of
		auto next = places_.upper_bound(at);
		if (next != places_.begin() && std::prev(next)->first + std::prev(next)->second.size > at) --next;
		while (next != places_.end() && next->first < end) {
			const auto [from, old] = *next;
			const size_t to = from + old.size;
			next = std::next(next);
			take(from);
			if (from < at) put(from, {at - from, old.stream, old.left});
			if (to > end) put(end, {to - end, old.stream, old.left});
			const size_t first = std::max(from, at), last = std::min(to, end);
			if (old.stream != stream) {
				tell(false, first, last - first, old.stream);
				continue;
			}
			if (first > known) tell(true, known, first - known, stream);
			known = last;
		}
		if (end > known) tell(true, known, end - known, stream);
		put(at, {size, stream, 0});
	}
	void leave(size_t at) {
		auto found = places_.find(at);
		if (found == places_.end() || found->second.left) return;
		Place place = found->second;
		take(at);
		place.left = ++clock_;
		put(at, place);
	}
	// Forgets places without blocks until all are at most that many bytes, or none is left.
	template <typename Tell> void shrink(size_t most, Tell tell) {
		while (bytes_ > most && !idle_.empty()) {
			const size_t at = idle_.begin()->second;
			const Place place = places_.at(at);
			take(at);
			tell(false, at, place.size, place.stream);
		}
	}
	void clear() { *this = Places(); }

	const std::map<size_t, Place> &by_address() const { return places_; }
	size_t bytes() const { return bytes_; }
	size_t top() const { return top_; } // above all places that there have been

      private:
	std::map<size_t, Place> places_;
	std::set<std::pair<uint64_t, size_t>> idle_; // when a block has left, and where
	size_t bytes_ = 0, top_ = 0;
	uint64_t clock_ = 0;

	void put(size_t at, const Place &place) {
		places_[at] = place;
		bytes_ += place.size;
		if (place.left) idle_.insert({place.left, at});
	}
	void take(size_t at) {
		const Place &place = places_.at(at);
		bytes_ -= place.size;
		if (place.left) idle_.erase({place.left, at});
		places_.erase(at);
	}
};

} // namespace stalloc
#endif
