// The addresses of memory in snapshots and memory history.
//
// libstalloc stitches, so the same physical memory has different addresses over time. A place is an
// address range where a block is or was. When all places together exceed what is reserved, those
// that were left first are dropped. PyTorch's viewer replays a history event by event and needs a
// segment around each block at all times, so places appear and disappear with events, as segments
// do.
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
	uint64_t left; // a counter of when its block was freed; 0: the block is live
};

// The places of one device. They call tell(mapped, address, size, stream) for each range that
// appears (mapped) or disappears. The books' lock guards them.
class Places {
      public:
	// Adds a new block, which overlaps no live block.
	template <typename Tell> void enter(size_t at, size_t size, void *stream, Tell tell) {
		const size_t end = at + size;
		top_ = std::max(top_, end);
		size_t known = at; // up to here the range belongs to this stream already
		auto next = places_.upper_bound(at);
		if (next != places_.begin() &&
		    std::prev(next)->first + std::prev(next)->second.size > at)
			--next;
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
	// Drops places of freed blocks until all places are at most that many bytes, or none is
	// left.
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
	std::set<std::pair<uint64_t, size_t>> idle_; // left and address of places of freed blocks
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
