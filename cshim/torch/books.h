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

// Segments for a snapshot: neighbouring live blocks of a stream, the gaps between them, and
// one for the rest. A page may be mapped at several addresses, so where idle memory lies is
// not always one place; but all segments together are what is reserved, as in native's.
inline void Books::append_segments(DeviceIndex device, const stalloc_stats &stats, std::vector<caching::SegmentInfo> *out) const {
	constexpr uint64_t kPage = 2 << 20;
	std::vector<std::pair<size_t, const Block *>> order;
	for (const auto &[ptr, block] : live) order.emplace_back(reinterpret_cast<size_t>(ptr), &block);
	std::sort(order.begin(), order.end());
	uint64_t idle = stats.reserved - stats.active, end = 0;
	const size_t first = out->size();
	auto open = [&](size_t address, cudaStream_t stream) {
		out->emplace_back();
		out->back().device = device;
		out->back().address = address;
		out->back().stream = stream;
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
	for (const auto &[address, block] : order) {
		const uint64_t gap = address - end;
		if (out->size() == first || out->back().stream != block->stream || gap > std::min(idle, kPage)) {
			open(address, block->stream);
		} else if (gap) {
			put(gap, 0, false, false, nullptr);
			idle -= gap;
		}
		auto context = frames.find(reinterpret_cast<void *>(address));
		put(static_cast<uint64_t>(rounded(block->asked)), block->asked, true, true, context == frames.end() ? nullptr : context->second);
		end = address + static_cast<uint64_t>(rounded(block->asked));
	}
	const uint64_t pending = stats.active - stats.allocated;
	if (!idle && !pending) return;
	open((end + kPage - 1) & ~(kPage - 1), nullptr);
	if (pending) put(pending, 0, false, true, nullptr); // freed, and another stream still uses it
	if (idle) put(idle, 0, false, false, nullptr);
}

} // namespace stalloc
#endif
