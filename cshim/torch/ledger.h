// PyTorch's questions about memory: statistics, snapshots, memory history. Each answer combines
// native's memory and ours.
#ifndef STALLOC_TORCH_LEDGER_H
#define STALLOC_TORCH_LEDGER_H

#include <c10/cuda/CUDAFunctions.h>

#include <array>
#include <thread>

#include "books.h"

namespace stalloc {

class Ledger : public Delegate {
      public:
	Ledger(caching::CUDAAllocator *native, const char *path)
	    : Delegate(native), library_(path) {
		if (!native->initialized()) return;
		for (DeviceIndex d = 0; d < c10::cuda::device_count(); d++) {
			DeviceStats stats = native->getDeviceStats(d);
			Books &b = books_[d];
			const stalloc_meters now = held_by(stats, true);
			library_.set_other(d, &now, 0);
			b.reserved = {stats.reserved_bytes[kAll].peak,
				      stats.reserved_bytes[kAll].current, 0};
			b.active = {stats.active_bytes[kAll].peak, stats.active_bytes[kAll].current,
				    0};
			double fraction = native->getMemoryFraction(d);
			if (fraction < 1) library_.set_memory_fraction(fraction, d);
		}
	}

	void *getBaseAllocation(void *ptr, size_t *size) override {
		Block block;
		if (!find(ptr, &block)) return native->getBaseAllocation(ptr, size);
		if (size) *size = static_cast<size_t>(rounded(block.asked));
		return ptr;
	}
	void cacheInfo(DeviceIndex d, size_t *largest) override {
		native->cacheInfo(d, largest);
		stalloc_stats s = library_.stats(d); // free pages are stitched to one block
		if (s.reserved > s.active)
			*largest = std::max<size_t>(*largest, s.reserved - s.active);
	}
	DeviceStats getDeviceStats(DeviceIndex d) override {
		DeviceStats sum = native->getDeviceStats(d);
		stalloc_meters m = held_by(sum);
		library_.set_other(d, &m, 0);
		stalloc_stats s = library_.stats(d);
		library_.snapshot(d, &m, nullptr, 0);
		s = consistent(s, m);
		Books &b = books_[d];
		std::lock_guard<std::mutex> hold(b.lock);
		b.reserved.sample(s.reserved, s.peak_reserved, sum.reserved_bytes[kAll].current);
		b.active.sample(s.active, s.peak_active, sum.active_bytes[kAll].current);
		b.active.peak = std::max(b.active.peak, m.of[kAll][STALLOC_ALLOCATED].peak);
		for (size_t pool : {kAll, kSmall, kLarge}) {
			const stalloc_meter *now = m.of[pool], *was = b.before.of[pool];
			merge(&sum.allocation[pool], now[STALLOC_BLOCKS], was[STALLOC_BLOCKS]);
			merge(&sum.active[pool], now[STALLOC_BLOCKS], was[STALLOC_BLOCKS]);
			merge(&sum.allocated_bytes[pool], now[STALLOC_ALLOCATED],
			      was[STALLOC_ALLOCATED]);
			merge(&sum.requested_bytes[pool], now[STALLOC_REQUESTED],
			      was[STALLOC_REQUESTED]);
		}
		merge(&sum.active_bytes[kSmall], m.of[kSmall][STALLOC_ALLOCATED],
		      b.before.of[kSmall][STALLOC_ALLOCATED]);
		// Memory reserved or pending has no block size: count it to the large pool.
		const auto pending = static_cast<int64_t>(s.active - s.allocated),
			   held = static_cast<int64_t>(s.reserved),
			   most = static_cast<int64_t>(s.peak_reserved);
		for (size_t pool : {kAll, kLarge}) {
			stalloc_meter now = m.of[pool][STALLOC_ALLOCATED];
			if (pending)
				sum.active[pool].current++; // it is one block in the snapshot, too
			now.current += pending;
			now.peak = b.active.peak;
			merge(&sum.active_bytes[pool], now, b.before.of[pool][STALLOC_ALLOCATED]);
			merge(&sum.reserved_bytes[pool], held, b.reserved.peak, most, most - held);
		}
		merge_pools(&sum, library_.pools(d), &b.pool_peaks);
		sum.num_ooms += b.ooms;
		sum.num_alloc_retries += static_cast<int64_t>(s.retries - b.retries_before);
		return sum;
	}
	void resetAccumulatedStats(DeviceIndex d) override {
		native->resetAccumulatedStats(d);
		uint64_t retries = library_.stats(d).retries;
		stalloc_meters now;
		library_.snapshot(d, &now, nullptr, 0);
		Books &b = books_[d];
		std::lock_guard<std::mutex> hold(b.lock);
		b.before = now;
		b.ooms = 0;
		b.retries_before = retries;
	}
	void resetPeakStats(DeviceIndex d) override {
		native->resetPeakStats(d);
		library_.reset_peak(d);
		DeviceStats theirs = native->getDeviceStats(d);
		const stalloc_meters now = held_by(theirs);
		library_.set_other(d, &now, 1);
		stalloc_stats s = library_.stats(d);
		Books &b = books_[d];
		std::lock_guard<std::mutex> hold(b.lock);
		b.pool_peaks.clear();
		b.reserved.reset(s.reserved, theirs.reserved_bytes[kAll].current);
		b.active.reset(s.active, theirs.active_bytes[kAll].current);
	}

	void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
		native->attachAllocatorTraceTracker(tracker);
		with_all_locks([&] {
			std::vector<std::unique_lock<std::recursive_mutex>> all;
			for (Books &b : books_) all.push_back(b.mapped.hold_lock());
			recorder_.track(std::move(tracker));
			if (shown_to_ == std::this_thread::get_id()) replace_shown();
			shown_.clear();
			shown_to_ = {};
		});
	}
	// libstalloc's tracker. It is called under libstalloc's locks, so it must take no books'
	// lock.
	void remapped(int device, void *at, size_t size, int change) {
		const auto d = static_cast<DeviceIndex>(device);
		books_[d].mapped.change(
			reinterpret_cast<size_t>(at), size, change,
			[&](bool allocated, size_t from, size_t n) {
				const auto action = allocated ? TraceEntry::SEGMENT_ALLOC
							      : TraceEntry::SEGMENT_FREE;
				if (recorder_.has_trackers())
					recorder_.notify_only(recorder_.entry(
						action, d, from, n, {}, nullptr, native));
			});
	}

      protected:
	Library library_;
	std::array<Books, C10_COMPILE_TIME_MAX_GPUS> books_;
	Recorder recorder_; // read under any one of the books' locks, changed under all of them
	c10::ApproximateClockToUnixTimeConverter clock_;

	// What the last snapshot before the first tracker showed, and to which thread.
	std::vector<std::array<size_t, 3>> shown_; // device, address, size
	std::thread::id shown_to_;
	std::mutex shown_lock_;

	void show(size_t device, const caching::SnapshotInfo &info, size_t first) {
		std::lock_guard<std::mutex> hold(shown_lock_);
		if (device == 0) shown_.clear();
		shown_to_ = std::this_thread::get_id();
		for (size_t i = first; i < info.segments.size(); i++)
			shown_.push_back(
				{device, info.segments[i].address, info.segments[i].total_size});
	}
	// Some programs take a snapshot, register what it shows, and then attach a tracker. For the
	// new tracker the segments of that snapshot end here and the real mappings begin. The
	// caller holds the locks that keep mappings unchanged.
	void replace_shown() {
		auto tell = [&](TraceEntry::Action action, size_t d, size_t at, size_t size) {
			recorder_.notify_only(recorder_.entry(action, static_cast<DeviceIndex>(d),
							      at, size, {}, nullptr, native),
					      true);
		};
		for (const auto &[d, at, size] : shown_)
			tell(TraceEntry::SEGMENT_FREE, d, at, size);
		for (size_t d = 0; d < books_.size(); d++)
			books_[d].mapped.each([&](size_t at, size_t size) {
				tell(TraceEntry::SEGMENT_ALLOC, d, at, size);
			});
	}

	// The limit for the bytes of all places: reserved memory without what other streams still
	// use.
	static size_t places_limit(const stalloc_stats &s) {
		return s.reserved -
		       std::min(s.reserved, s.active - std::min(s.active, s.allocated));
	}

	// A callback that adds events of places to the history. The books' lock is held.
	auto place_recorder(Books &b, DeviceIndex device, Context frames) {
		return [this, &b, device, frames = std::move(frames)](
			       bool mapped, size_t at, size_t size, const Owner &owner) {
			const auto action =
				mapped ? TraceEntry::SEGMENT_MAP : TraceEntry::SEGMENT_UNMAP;
			if (recorder_.keeps(action)) // not for trackers: a place is no mapping
				b.history.add(recorder_.entry(action, device, at, size, owner,
							      frames, native));
		};
	}
	// Enters the place of a new block. The books' lock is held.
	void place(Books &b, DeviceIndex device, void *ptr, size_t size, const Owner &owner,
		   const Context &frames) {
		auto tell = place_recorder(b, device, frames);
		b.places.enter(reinterpret_cast<size_t>(ptr), static_cast<size_t>(rounded(size)),
			       owner, tell);
		if (b.places.bytes() > b.room)
			b.places.shrink(b.room = places_limit(library_.stats(device)), tell);
	}
	// Drops the places of freed blocks after empty_cache.
	void drop_idle_places(const Context &frames) {
		for (int d = 0; d < c10::cuda::device_count(); d++) {
			const auto pools = library_.pools(d);
			auto holds = [&](const auto &id) {
				return std::any_of(pools.begin(), pools.end(), [&](const auto &p) {
					return p[0] == id.first && p[1] == id.second;
				});
			};
			std::lock_guard<std::mutex> hold(books_[d].lock);
			books_[d].places.drop_idle(
				place_recorder(books_[d], static_cast<DeviceIndex>(d), frames), holds);
		}
	}

	void on_compile_context(const std::string *pushed) override {
		auto &contexts = Recorder::compile_contexts();
		if (pushed && recorder_.on()) contexts.push(*pushed);
		if (!pushed && !contexts.empty()) contexts.pop();
	}
	void on_history(const HistoryRequest &request) override {
		with_all_locks([&] {
			recorder_.configure(request);
			for (size_t d = 0; d < books_.size(); d++) {
				Books &b = books_[d];
				b.history.configure(request);
				if (!request.enabled) b.frames.clear(), b.places.clear();
				if (request.enabled && (request.clear || !b.places.bytes()))
					b.restart_places(library_.blocks(static_cast<int>(d)));
			}
		});
	}
	void on_snapshot(caching::SnapshotInfo &info, bool traces, MempoolId_t id) override {
		auto to_nanoseconds = clock_.makeConverter();
		for (size_t d = 0; d < info.device_traces.size() && d < books_.size(); d++) {
			stalloc_stats s = library_.stats(static_cast<int>(d));
			Books &b = books_[d];
			std::lock_guard<std::mutex> hold(b.lock);
			stalloc_meters now;
			const std::vector<Block> pieces =
				library_.pieces(static_cast<int>(d), &now);
			const size_t first = info.segments.size();
			s = consistent(s, now);
			b.places.shrink(b.room = places_limit(s),
					place_recorder(b, static_cast<DeviceIndex>(d), nullptr));
			if (recorder_.has_trackers() && !recorder_.recording())
				b.append_mapped(static_cast<DeviceIndex>(d), pieces,
						&info.segments);
			else
				b.append_segments(static_cast<DeviceIndex>(d), s, pieces,
						  &info.segments);
			if (id != MempoolId_t{0, 0})
				keep_pool(&info.segments, first, id);
			else if (!recorder_.has_trackers())
				show(d, info, first);
			if (!traces) continue;
			std::vector<TraceEntry> ours = b.history.oldest_first(), both;
			for (TraceEntry &e : ours)
				e.time_.t_ = to_nanoseconds(e.time_.approx_t_) / 1000;
			auto earlier = [](const TraceEntry &x, const TraceEntry &y) {
				return x.time_.t_ < y.time_.t_;
			};
			auto &theirs = info.device_traces[d];
			std::merge(std::make_move_iterator(theirs.begin()),
				   std::make_move_iterator(theirs.end()),
				   std::make_move_iterator(ours.begin()),
				   std::make_move_iterator(ours.end()), std::back_inserter(both),
				   earlier);
			theirs = std::move(both);
		}
	}
	static void keep_pool(std::vector<caching::SegmentInfo> *segments, size_t first,
			      MempoolId_t id) {
		auto other = [&](const auto &s) { return s.owner_private_pool_id != id; };
		segments->erase(std::remove_if(segments->begin() + static_cast<ptrdiff_t>(first),
					       segments->end(), other),
				segments->end());
	}
	bool on_annotate([[maybe_unused]] const void *ptr,
			 [[maybe_unused]] const std::string &metadata) override {
#if STALLOC_TORCH >= 214
		Block block;
		if (!find(const_cast<void *>(ptr), &block)) return false;
		if (!recorder_.on()) return true;
		const auto device = static_cast<DeviceIndex>(block.device);
		TraceEntry e = recorder_.entry(
			TraceEntry::ANNOTATE, device, reinterpret_cast<size_t>(ptr), block.asked,
			owner_of(block), nullptr, native);
		e.user_metadata_ = metadata;
		std::lock_guard<std::mutex> hold(books_[device].lock);
		if (recorder_.notify(e)) books_[device].history.add(std::move(e));
		return true;
#else
		return false;
#endif
	}
	Context context_of(const void *ptr) override {
		for (Books &b : books_) {
			std::lock_guard<std::mutex> hold(b.lock);
			auto at = b.frames.find(const_cast<void *>(ptr));
			if (at != b.frames.end()) return at->second;
		}
		return nullptr;
	}
	template <typename Change> void with_all_locks(Change change) {
		std::vector<std::unique_lock<std::mutex>> all;
		for (Books &b : books_) all.emplace_back(b.lock);
		change();
	}

	// The books' lock is held.
	void note(Books &b, TraceEntry::Action action, DeviceIndex device, void *ptr, size_t size,
		  const Owner &owner, Context frames) {
		TraceEntry e = recorder_.entry(action, device, reinterpret_cast<size_t>(ptr), size,
					       owner, std::move(frames), native);
		if (recorder_.notify(e)) b.history.add(std::move(e));
	}

	bool find(void *ptr, Block *block) const {
		return ptr && library_.find(ptr, block) == STALLOC_OK;
	}

	// Records a new block.
	void note_alloc(const Block &block, Context frames = nullptr) {
		if (!recorder_.on()) return;
		const auto device = static_cast<DeviceIndex>(block.device);
		Books &b = books_[device];
		std::lock_guard<std::mutex> hold(b.lock);
		const Owner owner = owner_of(block);
		if (recorder_.recording()) place(b, device, block.ptr, block.asked, owner, frames);
		note(b, TraceEntry::ALLOC, device, block.ptr, block.asked, owner, frames);
		if (frames) b.frames[block.ptr] = std::move(frames);
	}

	// Records the free of a block, before it is freed.
	void note_free(const Block &block, Context frames) {
		const auto device = static_cast<DeviceIndex>(block.device);
		const Owner owner = owner_of(block);
		Books &b = books_[device];
		std::lock_guard<std::mutex> hold(b.lock);
		note(b, TraceEntry::FREE_REQUESTED, device, block.ptr, block.asked, owner, frames);
		// Another stream may still use it; only libstalloc knows until when.
		note(b, TraceEntry::FREE_COMPLETED, device, block.ptr, block.asked, owner,
		     std::move(frames));
		b.places.leave(reinterpret_cast<size_t>(block.ptr));
		b.frames.erase(block.ptr);
	}

	// Updates the meters after what native holds may have changed.
	void refresh(DeviceIndex device) {
		DeviceStats theirs = native->getDeviceStats(device);
		const stalloc_meters now = held_by(theirs);
		library_.set_other(device, &now, 0);
		Books &b = books_[device];
		bool changed = false;
		{
			std::lock_guard<std::mutex> hold(b.lock);
			changed = b.reserved.other != theirs.reserved_bytes[kAll].current;
		}
		if (!changed) return;
		stalloc_stats s = library_.stats(device);
		std::lock_guard<std::mutex> hold(b.lock);
		b.reserved.sample(s.reserved, s.peak_reserved, theirs.reserved_bytes[kAll].current);
		b.active.sample(s.active, s.peak_active, theirs.active_bytes[kAll].current);
	}
	void refresh_all() {
		if (!native->initialized()) return;
		for (DeviceIndex d = 0; d < c10::cuda::device_count(); d++) refresh(d);
	}

	void report(void *ptr, int64_t change, DeviceIndex device) {
		if (C10_LIKELY(!c10::memoryProfilingEnabled())) return;
		DeviceStats s = getDeviceStats(device);
		c10::reportMemoryUsageToProfiler(
			ptr, change, static_cast<size_t>(s.allocated_bytes[kAll].current),
			static_cast<size_t>(s.reserved_bytes[kAll].current),
			c10::Device(c10::kCUDA, device));
	}
};

} // namespace stalloc
#endif
