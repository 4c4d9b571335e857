// The addresses of memory in snapshots and memory history.
//
// libstalloc stitches, so the same physical memory has different addresses over time. A place is an
// address range where a block is or was. When all places together exceed what is reserved, those
// that were left first are dropped, those of private pools last, since graphs remember them.
// PyTorch's viewer replays a history event by event and needs a segment around each block at all
// times, so places appear and disappear with events, as segments do.
#ifndef STALLOC_TORCH_PLACES_H
#define STALLOC_TORCH_PLACES_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace stalloc {

// Whose memory it is.
struct Owner {
	void *stream = nullptr;
	std::pair<unsigned long long, unsigned long long> pool = {}; // a private one

	bool operator==(const Owner &o) const { return stream == o.stream && pool == o.pool; }
	bool operator!=(const Owner &o) const { return !(*this == o); }
	bool is_private() const { return pool.first || pool.second; }
};

struct Place {
	size_t size;
	Owner owner;
	uint64_t left; // a counter of when its block was freed; 0: the block is live
};

// The places of one device. They call tell(mapped, address, size, owner) for each range that
// appears (mapped) or disappears. The books' lock guards them.
class Places {
      public:
	// Adds a new block, which overlaps no live block.
	template <typename Tell> void enter(size_t at, size_t size, Owner owner, Tell tell) {
		const size_t end = at + size;
		top_ = std::max(top_, end);
		size_t known = at; // up to here the range belongs to this owner already
		auto next = places_.upper_bound(at);
		if (next != places_.begin() &&
		    std::prev(next)->first + std::prev(next)->second.size > at)
			--next;
		while (next != places_.end() && next->first < end) {
			const auto [from, old] = *next;
			const size_t to = from + old.size;
			next = std::next(next);
			take(from);
			if (from < at) put(from, {at - from, old.owner, old.left});
			if (to > end) put(end, {to - end, old.owner, old.left});
			const size_t first = std::max(from, at), last = std::min(to, end);
			if (old.owner != owner) {
				tell(false, first, last - first, old.owner);
				continue;
			}
			if (first > known) tell(true, known, first - known, owner);
			known = last;
		}
		if (end > known) tell(true, known, end - known, owner);
		put(at, {size, owner, 0});
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
		while (bytes_ > most && !idle_.empty()) drop(std::get<2>(*idle_.begin()), tell);
	}
	// Drops places of freed blocks, but for those of private pools that hold memory.
	template <typename Tell, typename Holds> void drop_idle(Tell tell, Holds holds) {
		for (auto i = idle_.begin(); i != idle_.end();) {
			const size_t at = std::get<2>(*i++);
			const Owner &owner = places_.at(at).owner;
			if (!owner.is_private() || !holds(owner.pool)) drop(at, tell);
		}
	}
	void clear() { *this = Places(); }

	const std::map<size_t, Place> &by_address() const { return places_; }
	size_t bytes() const { return bytes_; }
	size_t top() const { return top_; } // above all places that there have been

      private:
	std::map<size_t, Place> places_;
	std::set<std::tuple<bool, uint64_t, size_t>> idle_; // of freed blocks: private, left, address
	size_t bytes_ = 0, top_ = 0;
	uint64_t clock_ = 0;

	void put(size_t at, const Place &place) {
		places_[at] = place;
		bytes_ += place.size;
		if (place.left) idle_.insert({place.owner.is_private(), place.left, at});
	}
	void take(size_t at) {
		const Place &place = places_.at(at);
		bytes_ -= place.size;
		if (place.left) idle_.erase({place.owner.is_private(), place.left, at});
		places_.erase(at);
	}
	template <typename Tell> void drop(size_t at, Tell tell) {
		const Place place = places_.at(at);
		take(at);
		tell(false, at, place.size, place.owner);
	}
};

} // namespace stalloc
#endif
