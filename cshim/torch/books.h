// What is known of one device's blocks: which are live, how much they are together, and
// how much there was at most.
//
// PyTorch's own allocator may hold memory beside ours (graphs, private pools, what was
// allocated before us). A peak of both is not the sum of the two peaks, so the meters know
// what native holds beside and keep the peak of the sum.
#ifndef STALLOC_TORCH_BOOKS_H
#define STALLOC_TORCH_BOOKS_H

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "history.h"
#include "library.h"
#include "places.h"

namespace stalloc {

constexpr int64_t kRound = 512; // as both allocators round

inline int64_t rounded(size_t size) { return static_cast<int64_t>((size + kRound - 1) & ~static_cast<size_t>(kRound - 1)); }

// A quantity that requests and frees change.
struct Meter {
	int64_t current = 0, peak = 0, allocated = 0, freed = 0;
	int64_t beside = 0; // native's part

	bool top() const { return current + beside > peak; }
	void add(int64_t n) {
		current += n;
		allocated += n;
	}
	void take(int64_t n) {
		current -= n;
		freed += n;
	}
	void raise() { peak = std::max(peak, current + beside); }
	void reset() { peak = current + beside; }
};

// A quantity that libstalloc counts and that is looked at now and then.
struct Outside {
	int64_t peak = 0, beside = 0, seen = 0; // seen: libstalloc's own peak when it was looked at

	void look(uint64_t current, uint64_t own_peak, int64_t beside_now) {
		if (static_cast<int64_t>(own_peak) > seen) peak = std::max(peak, (seen = static_cast<int64_t>(own_peak)) + beside);
		beside = beside_now;
		peak = std::max(peak, static_cast<int64_t>(current) + beside);
	}
	void reset(uint64_t current, int64_t beside_now) {
		seen = static_cast<int64_t>(current);
		beside = beside_now;
		peak = seen + beside;
	}
};

// What the blocks of one pool are together.
struct Meters {
	Meter blocks, allocated, requested;

	void add(int64_t asked, int64_t size) {
		blocks.add(1);
		allocated.add(size);
		requested.add(asked);
	}
	void take(int64_t asked, int64_t size) {
		blocks.take(1);
		allocated.take(size);
		requested.take(asked);
	}
	bool top() const { return allocated.top() || requested.top() || blocks.top(); }
	void raise() {
		for (Meter *m : {&blocks, &allocated, &requested}) m->raise();
	}
	void reset_peaks() {
		for (Meter *m : {&blocks, &allocated, &requested}) m->reset();
	}
	void reset_totals() {
		for (Meter *m : {&blocks, &allocated, &requested}) m->allocated = m->freed = 0;
	}
	void beside(const DeviceStats &native, size_t pool) {
		blocks.beside = native.allocation[pool].current;
		allocated.beside = native.allocated_bytes[pool].current;
		requested.beside = native.requested_bytes[pool].current;
	}
};

constexpr auto kAll = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::AGGREGATE);
constexpr auto kSmall = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::SMALL_POOL);
constexpr auto kLarge = static_cast<size_t>(c10::CachingDeviceAllocator::StatType::LARGE_POOL);

// Which of PyTorch's pools a block counts to. libstalloc has others; programs know these.
inline size_t pool_of(int64_t size) { return size <= (1 << 20) ? kSmall : kLarge; }

struct Block {
	size_t asked = 0;
	cudaStream_t stream = nullptr;
};

struct Books {
	std::mutex lock; // guards everything below; native's locks are never taken under it
	ska::flat_hash_map<void *, Block> live;
	std::unordered_map<void *, Context> frames; // of live blocks, while history is recorded
	Meters pools[3]; // by StatType: all, small, large
	Outside reserved, active;
	History history;
	Places places;	     // while history is recorded; of every live block then
	size_t room = 0; // how much memory there was for places when it was asked last
	int64_t ooms = 0;
	uint64_t retries_before = 0;

	void add(void *ptr, size_t asked, cudaStream_t stream) {
		live[ptr] = {asked, stream};
		const int64_t size = rounded(asked);
		pools[kAll].add(static_cast<int64_t>(asked), size);
		pools[pool_of(size)].add(static_cast<int64_t>(asked), size);
	}
	// False: not a live block of this device.
	bool take(void *ptr, Block *block) {
		auto at = live.find(ptr);
		if (at == live.end()) return false;
		*block = at->second;
		live.erase(at);
		const int64_t size = rounded(block->asked);
		pools[kAll].take(static_cast<int64_t>(block->asked), size);
		pools[pool_of(size)].take(static_cast<int64_t>(block->asked), size);
		return true;
	}
	bool find(void *ptr, Block *block) const {
		auto at = live.find(ptr);
		if (at == live.end()) return false;
		*block = at->second;
		return true;
	}
	// Whether the newest block, of this size, has made a peak.
	bool top(size_t asked) const { return pools[kAll].top() || pools[pool_of(rounded(asked))].top(); }
	void raise() {
		for (Meters &m : pools) m.raise();
	}
	// libstalloc's counters, made to agree with what is live here: requests of other threads may lie
	// between the two, and plain driver allocations round otherwise.
	stalloc_stats agreed(stalloc_stats s) const {
		const uint64_t pending = s.active > s.allocated ? s.active - s.allocated : 0;
		s.allocated = static_cast<uint64_t>(pools[kAll].allocated.current);
		s.active = s.allocated + pending;
		s.reserved = std::max(s.reserved, s.active);
		s.peak_active = std::max(s.peak_active, s.active);
		s.peak_reserved = std::max(s.peak_reserved, s.reserved);
		return s;
	}
	// Begins places anew, with those of the live blocks.
	void settle_places() {
		places.clear();
		for (const auto &[ptr, block] : live)
			places.enter(reinterpret_cast<size_t>(ptr), static_cast<size_t>(rounded(block.asked)), block.stream, [](auto...) {});
		room = places.bytes();
	}
	// What native holds now.
	void beside(const DeviceStats &native);
	// The counters must agree.
	void append_segments(DeviceIndex device, const stalloc_stats &stats, std::vector<caching::SegmentInfo> *out) const;
};

inline void Books::beside(const DeviceStats &native) {
	for (size_t pool : {kAll, kSmall, kLarge}) pools[pool].beside(native, pool);
	raise();
}

// Adds our part to a statistic of native's.
inline void merge(c10::CachingDeviceAllocator::Stat *into, int64_t current, int64_t peak, int64_t allocated, int64_t freed) {
	into->current += current;
	into->allocated += allocated;
	into->freed += freed;
	into->peak = std::max(into->peak, peak);
}

inline void merge(c10::CachingDeviceAllocator::Stat *into, const Meter &m) { merge(into, m.current, m.peak, m.allocated, m.freed); }

// Segments for a snapshot: places while history is recorded, else neighbouring live blocks of a
// stream and the gaps between them; and one for the rest. A page may be mapped at several
// addresses, so where idle memory lies is not always one place; but all segments together are
// what is reserved, as in native's.
inline void Books::append_segments(DeviceIndex device, const stalloc_stats &stats, std::vector<caching::SegmentInfo> *out) const {
	constexpr uint64_t kPage = 2 << 20;
	struct Piece {
		size_t address, size;
		void *stream;
		const Block *block;
	};
	std::vector<Piece> order;
	const bool told = places.bytes() > 0;
	for (const auto &[address, place] : places.by_address()) {
		auto block = live.find(reinterpret_cast<void *>(address));
		order.push_back({address, place.size, place.stream, place.left || block == live.end() ? nullptr : &block->second});
	}
	for (const auto &[ptr, block] : live)
		if (!told) order.push_back({reinterpret_cast<size_t>(ptr), static_cast<size_t>(rounded(block.asked)), block.stream, &block});
	std::sort(order.begin(), order.end(), [](const Piece &x, const Piece &y) { return x.address < y.address; });
	uint64_t end = 0, idle = stats.reserved - stats.active;
	for (const Piece &piece : order) idle -= piece.block ? 0 : std::min<uint64_t>(idle, piece.size);
	const size_t first = out->size();
	auto open = [&](size_t address, void *stream) {
		out->emplace_back();
		out->back().device = device;
		out->back().address = address;
		out->back().stream = static_cast<cudaStream_t>(stream);
		out->back().is_large = out->back().is_expandable = true;
	};
	auto put = [&](uint64_t size, uint64_t asked, bool allocated, bool active, Context context) {
		caching::SegmentInfo &s = out->back();
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
	};
	for (const Piece &piece : order) {
		const uint64_t gap = piece.address - end;
		if (out->size() == first || out->back().stream != piece.stream || gap > (told ? 0 : std::min(idle, kPage))) {
			open(piece.address, piece.stream);
		} else if (gap) {
			put(gap, 0, false, false, nullptr);
			idle -= gap;
		}
		auto context = piece.block ? frames.find(reinterpret_cast<void *>(piece.address)) : frames.end();
		put(piece.size, piece.block ? piece.block->asked : 0, piece.block, piece.block, context == frames.end() ? nullptr : context->second);
		end = piece.address + piece.size;
	}
	const uint64_t pending = stats.active - stats.allocated;
	if (!idle && !pending) return;
	end = std::max<uint64_t>(end, places.top());
	open((end + kPage - 1) & ~(kPage - 1), nullptr);
	if (pending) put(pending, 0, false, true, nullptr); // freed, and another stream still uses it
	if (idle) put(idle, 0, false, false, nullptr);
}

} // namespace stalloc
#endif
