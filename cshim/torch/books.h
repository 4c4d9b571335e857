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

inline void open(std::vector<caching::SegmentInfo> *out, DeviceIndex device, size_t address,
		 const Owner &owner) {
	out->emplace_back();
	out->back().device = device;
	out->back().address = address;
	out->back().stream = static_cast<cudaStream_t>(owner.stream);
	out->back().is_large = out->back().is_expandable = true;
	out->back().owner_private_pool_id = owner.pool;
}
inline void put(caching::SegmentInfo &s, uint64_t size, uint64_t asked = 0, bool allocated = false,
		bool active = false, Context context = nullptr) {
	s.blocks.emplace_back();
	s.blocks.back().size = size;
	s.blocks.back().requested_size = asked;
	s.blocks.back().allocated = allocated;
	s.blocks.back().active = active;
	s.blocks.back().context_when_allocated = std::move(context);
	s.total_size += size;
	s.requested_size += asked;
	s.allocated_size += allocated ? size : 0;
	s.active_size += active ? size : 0;
}

// What segments consist of, by address: places while history is recorded, otherwise live blocks and
// all of private pools.
inline std::vector<Books::Piece> Books::order(const std::vector<Block> &pieces) const {
	std::vector<Piece> all;
	auto address_of = [](const Block &b) { return reinterpret_cast<size_t>(b.ptr); };
	for (const auto &[address, place] : places.by_address()) {
		auto block = std::lower_bound(
			pieces.begin(), pieces.end(), address,
			[&](const Block &b, size_t at) { return address_of(b) < at; });
		const bool there = !place.left && block != pieces.end() &&
				   block->state == STALLOC_LIVE && address_of(*block) == address;
		all.push_back({address, place.size, place.owner,
			       there ? STALLOC_LIVE : STALLOC_IDLE, there ? &*block : nullptr});
	}
	if (!all.empty()) return all;
	for (const Block &b : pieces)
		all.push_back({address_of(b), static_cast<size_t>(rounded(b.asked)), owner_of(b),
			       b.state, b.state == STALLOC_LIVE ? &b : nullptr});
	return all;
}

// Segments for a snapshot: neighbouring pieces of one owner and the gaps between them; and one
// segment for the rest. A page may be mapped at several addresses, so idle memory has no single
// address; but the sizes of all segments add up to what is reserved, as in native's snapshot.
inline void Books::append_segments(DeviceIndex device, const stalloc_stats &stats,
				   const std::vector<Block> &pieces,
				   std::vector<caching::SegmentInfo> *out) const {
	constexpr uint64_t kPage = 2 << 20;
	const bool has_places = places.bytes() > 0;
	const std::vector<Piece> all = order(pieces);
	uint64_t end = 0, idle = stats.reserved - stats.active,
		 pending = stats.active - stats.allocated;
	for (const Piece &piece : all) {
		uint64_t &sum = piece.state == STALLOC_PENDING ? pending : idle;
		if (piece.state != STALLOC_LIVE) sum -= std::min<uint64_t>(sum, piece.size);
	}
	const size_t first = out->size();
	Owner owner;
	for (const Piece &piece : all) {
		const uint64_t gap = piece.address - end;
		const bool private_pool = piece.owner.pool != MempoolId_t{0, 0};
		if (out->size() == first || owner != piece.owner ||
		    gap > (has_places || private_pool ? 0 : std::min(idle, kPage))) {
			open(out, device, piece.address, owner = piece.owner);
		} else if (gap) {
			put(out->back(), gap);
			idle -= gap;
		}
		auto context = piece.block ? frames.find(reinterpret_cast<void *>(piece.address))
					   : frames.end();
		put(out->back(), piece.size, piece.block ? piece.block->asked : 0, piece.block,
		    piece.state != STALLOC_IDLE,
		    context == frames.end() ? nullptr : context->second);
		end = piece.address + piece.size;
	}
	if (!idle && !pending) return;
	end = std::max<uint64_t>(end, places.top());
	open(out, device, (end + kPage - 1) & ~(kPage - 1), {});
	if (pending)
		put(out->back(), pending, 0, false, true); // freed, still used by another stream
	if (idle) put(out->back(), idle);
}

// Segments for a snapshot while there are trackers: exactly the mappings that they were told of,
// since whoever attaches a tracker registers what a snapshot shows and is told of its end later.
// Live blocks are cut at the ends of handles, and memory mapped at two addresses is in two
// segments.
inline void Books::append_mapped(DeviceIndex device, const std::vector<Block> &pieces,
				 std::vector<caching::SegmentInfo> *out) const {
	mapped.each([&](size_t at, size_t size) {
		open(out, device, at, {});
		out->back().is_expandable = false; // mapped and unmapped whole
		size_t here = at;
		auto ends_by = [](const Block &b, size_t to) {
			return reinterpret_cast<size_t>(b.ptr) +
				       static_cast<size_t>(rounded(b.asked)) <=
			       to;
		};
		for (auto b = std::lower_bound(pieces.begin(), pieces.end(), at, ends_by);
		     b != pieces.end() && here < at + size; ++b) {
			const auto first = reinterpret_cast<size_t>(b->ptr);
			if (first >= at + size) break;
			out->back().owner_private_pool_id = owner_of(*b).pool;
			if (b->state != STALLOC_LIVE) continue;
			if (first > here) put(out->back(), first - here), here = first;
			const size_t part = std::min(first + static_cast<size_t>(rounded(b->asked)),
						     at + size) -
					    here;
			put(out->back(), part,
			    std::clamp(first + b->asked, here, here + part) - here, true, true);
			out->back().stream = static_cast<cudaStream_t>(b->stream);
			here += part;
		}
		if (here < at + size) put(out->back(), at + size - here);
	});
}

} // namespace stalloc
#endif
