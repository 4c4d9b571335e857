// What the adapter knows of one device and libstalloc does not: memory history, and what native
// holds.
//
// PyTorch's own allocator may hold memory at the same time (graphs, private pools, what was
// allocated before us). The peak of both is not the sum of the two peaks, so libstalloc's meters
// are given what native holds and keep the peak of the sum.
#ifndef STALLOC_TORCH_BOOKS_H
#define STALLOC_TORCH_BOOKS_H

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "history.h"
#include "library.h"
#include "mapped.h"
#include "places.h"

namespace stalloc {

constexpr int64_t kRound = 512; // both allocators round to it

inline int64_t rounded(size_t size) {
	return static_cast<int64_t>((size + kRound - 1) & ~static_cast<size_t>(kRound - 1));
}

// The peak of a quantity of both allocators that libstalloc does not meter, sampled now and then.
struct SampledPeak {
	int64_t peak = 0, other = 0, seen = 0; // seen: libstalloc's own peak at the last sample

	void sample(uint64_t current, uint64_t own_peak, int64_t other_now) {
		const auto own = static_cast<int64_t>(own_peak);
		if (own > seen) peak = std::max(peak, (seen = own) + other);
		other = other_now;
		peak = std::max(peak, static_cast<int64_t>(current) + other);
	}
	void reset(uint64_t current, int64_t other_now) {
		seen = static_cast<int64_t>(current);
		other = other_now;
		peak = seen + other;
	}
};

constexpr auto kAll = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
constexpr auto kSmall = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::SMALL_POOL);
constexpr auto kLarge = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::LARGE_POOL);
static_assert(kAll == STALLOC_POOL_ALL && kSmall == STALLOC_POOL_SMALL &&
		      kLarge == STALLOC_POOL_LARGE,
	      "libstalloc and PyTorch number the pools differently");

using Block = stalloc_block;

inline Owner owner_of(const Block &b) { return {b.stream, {b.pool[0], b.pool[1]}}; }

struct Books {
	std::mutex lock; // guards all below; native's locks are never taken while it is held
	std::unordered_map<void *, Context> frames; // of live blocks, while history is recorded
	Mapped mapped; // has its own lock
	stalloc_meters before = {}; // as of the last reset of the totals
	SampledPeak reserved, active;
	History history;
	Places places; // of every live block, while history is recorded
	std::map<MempoolId_t, int64_t> pool_peaks;
	size_t room = 0; // the limit for places when it was last computed
	int64_t ooms = 0;
	uint64_t retries_before = 0;

	void sample(const stalloc_stats &s, const DeviceStats &native) {
		reserved.sample(s.reserved, s.peak_reserved, native.reserved_bytes[kAll].current);
		active.sample(s.active, s.peak_active, native.active_bytes[kAll].current);
	}
	// Restarts places with those of the live blocks.
	void restart_places(const std::vector<Block> &live) {
		places.clear();
		for (const Block &b : live)
			places.enter(reinterpret_cast<size_t>(b.ptr),
				     static_cast<size_t>(rounded(b.asked)), owner_of(b),
				     [](auto...) {});
		room = places.bytes();
	}
	// The counters must be consistent.
	void append_segments(DeviceIndex device, const stalloc_stats &stats,
			     const std::vector<Block> &pieces,
			     std::vector<caching::SegmentInfo> *out) const;
	void append_mapped(DeviceIndex device, const std::vector<Block> &pieces,
			   std::vector<caching::SegmentInfo> *out) const;

      private:
	struct Piece {
		size_t address, size;
		Owner owner;
		int state;
		const Block *block; // NULL: idle
	};
	std::vector<Piece> order(const std::vector<Block> &pieces) const;
};

// libstalloc's counters made consistent with its meters: requests of other threads may come between
// reading the two, and plain driver allocations are rounded differently.
inline stalloc_stats consistent(stalloc_stats s, const stalloc_meters &m) {
	const uint64_t pending = s.active > s.allocated ? s.active - s.allocated : 0;
	s.allocated = static_cast<uint64_t>(m.of[kAll][STALLOC_ALLOCATED].current);
	s.active = s.allocated + pending;
	s.reserved = std::max(s.reserved, s.active);
	s.peak_active = std::max(s.peak_active, s.active);
	s.peak_reserved = std::max(s.peak_reserved, s.reserved);
	return s;
}

// What native holds now, for libstalloc's meters; with its peaks, if they are wanted.
inline stalloc_meters held_by(const DeviceStats &native, bool peaks = false) {
	stalloc_meters m = {};
	for (size_t pool : {kAll, kSmall, kLarge}) {
		const c10::CachingDeviceAllocator::Stat *of[] = {&native.allocation[pool],
								 &native.allocated_bytes[pool],
								 &native.requested_bytes[pool]};
		for (size_t i = 0; i < STALLOC_METERS; i++) {
			m.of[pool][i].other = of[i]->current;
			if (peaks) m.of[pool][i].peak = of[i]->peak;
		}
	}
	return m;
}

// Adds our part to one of native's statistics.
inline void merge(c10::CachingDeviceAllocator::Stat *into, int64_t current, int64_t peak,
		  int64_t allocated, int64_t freed) {
	into->current += current;
	into->allocated += allocated;
	into->freed += freed;
	into->peak = std::max(into->peak, peak);
}

// Adds what our private pools hold where PyTorch's statistics have that; peaks: as seen so far.
template <typename Stats>
auto merge_pools(Stats *into, const std::vector<std::array<uint64_t, 3>> &pools,
		 std::map<MempoolId_t, int64_t> *peaks)
	-> decltype((void)into->reserved_bytes_by_private_pools) {
	for (const auto &[first, second, bytes] : pools) {
		const MempoolId_t id{first, second};
		const auto held = static_cast<int64_t>(bytes);
		int64_t &peak = (*peaks)[id];
		peak = std::max(peak, held);
		for (size_t pool : {kAll, kLarge})
			merge(&into->reserved_bytes_by_private_pools[id][pool], held, peak, peak,
			      peak - held);
	}
}
inline void merge_pools(...) {}

// before: the meter at the last reset of the totals.
inline void merge(c10::CachingDeviceAllocator::Stat *into, const stalloc_meter &m,
		  const stalloc_meter &before) {
	merge(into, m.current, m.peak, m.total - before.total,
	      (m.total - m.current) - (before.total - before.current));
}

} // namespace stalloc
#endif
