// Memory history: the settings of _record_memory_history, and the newest events of one device's
// blocks, in PyTorch's own format.
#ifndef STALLOC_TORCH_HISTORY_H
#define STALLOC_TORCH_HISTORY_H

#include <c10/util/ApproximateClock.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <stack>
#include <vector>

#include "delegate.h"
#include "places.h"

namespace stalloc {

using caching::RecordContext;
using caching::TraceEntry;

// There is one for the process. Every request reads the switches without a lock, so that history
// costs one load while it is off.
class Recorder {
      public:
	explicit Recorder(caching::CUDAAllocator *native) : native_(native) {}
	bool on() const { return on_.load(std::memory_order_relaxed); }

	bool has_trackers() const { return !trackers_.empty(); }
	// Whether history is recorded; on() is also true if there are only trackers.
	bool recording() const { return recording_.load(std::memory_order_relaxed); }
	bool keeps(TraceEntry::Action action) const {
		return recording() && !skipped_.count(action);
	}

	// The caller's stack frames, if events of this importance record them. Takes the GIL: hold
	// no lock.
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
		for (const std::string &name : r.skipped)
			skipped_.insert(c10::CachingDeviceAllocator::parseTraceEntryAction(name));
#endif
	}

	void track(caching::AllocatorTraceTracker tracker) {
		trackers_.push_back(std::move(tracker));
		on_ = true;
	}

	TraceEntry entry(TraceEntry::Action action, DeviceIndex device, size_t addr, size_t size,
			 const Owner &owner = {}, Context frames = nullptr) const {
		if (when_.load(std::memory_order_relaxed) < RecordContext::ALLOC) frames = nullptr;
		return {
			action,
			device,
			addr,
			size,
			static_cast<cudaStream_t>(owner.stream),
#if STALLOC_TORCH >= 208
			MempoolId_t{owner.pool},
#endif
			c10::getApproximateTime(),
			std::move(frames),
#if STALLOC_TORCH >= 208
			compiling(),
#endif
#if STALLOC_TORCH >= 210
			native_->getUserMetadata(),
#endif
		};
	}

	// Calls the trackers. Returns whether the event also goes into the history.
	bool notify(const TraceEntry &e) const {
		for (const auto &tracker : trackers_) tracker(e);
		return keeps(e.action_);
	}

	// Calls all trackers, or only the newest, for an event that is not part of the history. No
	// exception may pass into libstalloc, which calls this.
	void notify_only(const TraceEntry &e, bool newest = false) const noexcept {
		static std::atomic<bool> logged{false};
		for (size_t i = newest ? trackers_.size() - 1 : 0; i < trackers_.size(); i++) try {
				trackers_[i](e);
			} catch (const std::exception &error) {
				if (!logged.exchange(true))
					fprintf(stderr,
						"stalloc: a tracker of the allocator's segments "
						"has failed: %s\n",
						error.what());
			}
	}

	// What this thread is compiling, as in native's events.
	static std::stack<std::string> &compile_contexts() {
		static thread_local std::stack<std::string> contexts;
		return contexts;
	}

      private:
	static std::string compiling() {
		return compile_contexts().empty() ? "N/A" : compile_contexts().top();
	}

	[[maybe_unused]] caching::CUDAAllocator *const native_;
	std::atomic<bool> on_{false}, recording_{false};
	std::atomic<RecordContext> when_{RecordContext::NEVER};
	std::atomic<caching::CreateContextFn> gather_{nullptr};
	std::vector<caching::AllocatorTraceTracker>
		trackers_; // attached at start-up, as native's are
	std::set<TraceEntry::Action> skipped_;
};

// A ring buffer of a device's newest events. The books' lock guards it.
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
