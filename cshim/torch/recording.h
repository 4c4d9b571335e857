// PyTorch's questions about where memory is: snapshots, memory history, trackers of segments. Each
// answer combines native's memory and ours.
#ifndef STALLOC_TORCH_RECORDING_H
#define STALLOC_TORCH_RECORDING_H

#include <thread>

#include "ledger.h"
#include "segments.h"

namespace stalloc {

class Recording : public Ledger {
      public:
	Recording(caching::CUDAAllocator *native, const char *path)
		: Ledger(native, path), recorder_(native) {}

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
					recorder_.notify_only(
						recorder_.entry(action, d, from, n));
			});
	}

      protected:
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
			recorder_.notify_only(
				recorder_.entry(action, static_cast<DeviceIndex>(d), at, size),
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
				b.history.add(
					recorder_.entry(action, device, at, size, owner, frames));
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
			Books &b = books_[d];
			std::lock_guard<std::mutex> hold(b.lock);
			b.places.drop_idle(
				place_recorder(b, static_cast<DeviceIndex>(d), frames), holds);
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
		const auto ours = segments->begin() + static_cast<ptrdiff_t>(first);
		segments->erase(std::remove_if(ours, segments->end(), other), segments->end());
	}
	bool on_annotate([[maybe_unused]] const void *ptr,
			 [[maybe_unused]] const std::string &metadata) override {
#if STALLOC_TORCH >= 214
		Block block;
		if (!find(const_cast<void *>(ptr), &block)) return false;
		if (!recorder_.on()) return true;
		const auto device = static_cast<DeviceIndex>(block.device);
		TraceEntry e = recorder_.entry(TraceEntry::ANNOTATE, device,
					       reinterpret_cast<size_t>(ptr), block.asked,
					       owner_of(block));
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
					       owner, std::move(frames));
		if (recorder_.notify(e)) b.history.add(std::move(e));
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
};

} // namespace stalloc
#endif
