// Memory history: what _record_memory_history asked for, and the newest events of one
// device's blocks, in the form of PyTorch's own.
#ifndef STALLOC_TORCH_HISTORY_H
#define STALLOC_TORCH_HISTORY_H

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <set>
#include <stack>
#include <vector>

#include "delegate.h"

namespace stalloc {

using caching::RecordContext;
using caching::TraceEntry;

// One for the process. What changes when history is switched on or off is read without
// a lock by every request, so that it costs a load while it is off.
class Recorder {
      public:
	bool on() const { return on_.load(std::memory_order_relaxed); }

	// Whether there is a history, and not trackers alone.
	bool tracked() const { return !trackers_.empty(); }
	bool recording() const { return recording_.load(std::memory_order_relaxed); }
	bool keeps(TraceEntry::Action action) const { return recording() && !skipped_.count(action); }

	// The caller's frames, if events of this importance have any. Takes the GIL: hold no lock.
	Context frames(RecordContext importance) const {
		if (when_.load(std::memory_order_relaxed) < importance) return nullptr;
		caching::CreateContextFn gather = gather_.load(std::memory_order_relaxed);
		return gather ? gather() : nullptr;
	}

	void configure(const HistoryRequest &r) {
		gather_ = r.recorder;
		when_ = r.enabled ? r.when : RecordContext::NEVER;
		recording_ = r.enabled;
		on_ = recording_ || !trackers_.empty();
		skipped_.clear();
#if STALLOC_TORCH >= 211
		for (const std::string &name : r.skipped) skipped_.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
#endif
	}

	void track(caching::AllocatorTraceTracker tracker) {
		trackers_.push_back(std::move(tracker));
		on_ = true;
	}

	TraceEntry entry(TraceEntry::Action action, DeviceIndex device, size_t addr, size_t size, cudaStream_t stream, Context frames,
			 caching::CUDAAllocator *native) const {
		if (when_.load(std::memory_order_relaxed) < RecordContext::ALLOC) frames = nullptr;
#if STALLOC_TORCH >= 210
		return {action, device, addr, size, stream, MempoolId_t{0, 0}, c10::getApproximateTime(), std::move(frames),
			compiling(), native->getUserMetadata()};
#elif STALLOC_TORCH >= 208
		(void)native;
		return {action, device, addr, size, stream, MempoolId_t{0, 0}, c10::getApproximateTime(), std::move(frames), compiling()};
#else
		(void)native;
		return {action, device, addr, size, stream, c10::getApproximateTime(), std::move(frames)};
#endif
	}

	// Tells the trackers; whether the event is to be kept as well.
	bool announce(const TraceEntry &e) const {
		for (const auto &tracker : trackers_) tracker(e);
		return keeps(e.action_);
	}

	// Tells the trackers alone, or the newest of them. The library that calls cannot let an exception pass.
	void tell(const TraceEntry &e, bool newest = false) const noexcept {
		static std::atomic<bool> logged{false};
		for (size_t i = newest ? trackers_.size() - 1 : 0; i < trackers_.size(); i++) try {
				trackers_[i](e);
			} catch (const std::exception &error) {
				if (!logged.exchange(true)) fprintf(stderr, "stalloc: a tracker of the allocator's segments has failed: %s\n", error.what());
			}
	}

	// What this thread compiles now, as native's events say it.
	static std::stack<std::string> &compile_contexts() {
		static thread_local std::stack<std::string> contexts;
		return contexts;
	}

      private:
	static std::string compiling() { return compile_contexts().empty() ? "N/A" : compile_contexts().top(); }

	std::atomic<bool> on_{false}, recording_{false};
	std::atomic<RecordContext> when_{RecordContext::NEVER};
	std::atomic<caching::CreateContextFn> gather_{nullptr};
	std::vector<caching::AllocatorTraceTracker> trackers_; // attached at start-up, as native's are
	std::set<TraceEntry::Action> skipped_;
};

// A ring of the newest events of a device. Its owner's lock is held.
class History {
      public:
	void configure(const HistoryRequest &r) {
		most_ = std::max<size_t>(1, r.entries);
		if (!r.enabled || r.clear) {
			entries_.clear();
			next_ = 0;
		}
	}

	void add(TraceEntry e) {
		if (entries_.size() < most_) {
			entries_.push_back(std::move(e));
			return;
		}
		entries_[next_] = std::move(e);
		next_ = (next_ + 1) % entries_.size();
	}

	std::vector<TraceEntry> oldest_first() const {
		std::vector<TraceEntry> all(entries_.begin() + next_, entries_.end());
		all.insert(all.end(), entries_.begin(), entries_.begin() + next_);
		return all;
	}

      private:
	size_t most_ = 1, next_ = 0;
	std::vector<TraceEntry> entries_;
};

} // namespace stalloc
#endif
