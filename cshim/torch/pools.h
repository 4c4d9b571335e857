// Private pools: CUDA graphs, torch.cuda.MemPool, cudagraph trees. libstalloc serves them. Native
// serves pools with an allocator of their own, those that must not be split, those that are older
// than the adapter, and all that begin where libstalloc has no engine.
#ifndef STALLOC_TORCH_POOLS_H
#define STALLOC_TORCH_POOLS_H

#include "recording.h"

namespace stalloc {

class Pools : public Recording {
      public:
	using Recording::Recording;

	void beginAllocateToPool(DeviceIndex d, MempoolId_t id, Filter filter) override {
		const bool ours = serves(d, id), graph = is_graph(d, filter);
		if (ours)
			library_.begin_pool(d, id.first, id.second, &filter);
		else
			begin_native(d, id, filter);
		const MempoolId_t in_library = ours ? id : MempoolId_t{0, 0};
		library_.pool_purpose(d, in_library.first, in_library.second, current_stream(d),
				      graph);
		std::lock_guard<std::mutex> hold(pools_lock_);
		openings_.push_back({d, id, std::move(filter), !ours});
		if (!ours) native_openings_++;
	}
	void endAllocateToPool(DeviceIndex d, MempoolId_t id) override {
		bool theirs = !serves(d, id);
		{
			std::lock_guard<std::mutex> hold(pools_lock_);
			auto at = std::find_if(
				openings_.rbegin(), openings_.rend(),
				[&](const Opening &o) { return o.device == d && o.id == id; });
			if (at != openings_.rend()) {
				if ((theirs = at->native)) native_openings_--;
				openings_.erase(std::next(at).base());
			}
		}
		if (!theirs) return library_.end_pool(d, id.first, id.second);
		library_.end_pool(d, 0, 0);
		native->endAllocateToPool(d, id);
	}
	void releasePool(DeviceIndex d, MempoolId_t id) override {
		if (uses(d, id))
			library_.release_pool(d, id.first, id.second);
		else if (native_has(d, id)) // else it was ended for a capture that failed
			native->releasePool(d, id);
	}
	int getPoolUseCount(DeviceIndex d, MempoolId_t id) override {
		const int ours = uses(d, id);
		return ours ? ours : native->getPoolUseCount(d, id);
	}
	bool checkPoolLiveAllocations(DeviceIndex d, MempoolId_t id,
				      const std::unordered_set<void *> &live) override {
		if (!uses(d, id)) return native->checkPoolLiveAllocations(d, id, live);
		const std::vector<Block> blocks = blocks_of(d, id);
		return blocks.size() == live.size() &&
		       std::all_of(blocks.begin(), blocks.end(),
				   [&](const Block &b) { return live.count(b.ptr); });
	}
	std::shared_ptr<caching::AllocatorState> getCheckpointState(DeviceIndex d,
								    MempoolId_t id) override {
		if (!uses(d, id)) return native->getCheckpointState(d, id);
		library_.capture_pool(d, id.first, id.second); // its blocks lie there again
		auto state = std::make_shared<State>();
		state->id = id;
		state->live = blocks_of(d, id);
		return state;
	}
	caching::CheckpointDelta setCheckpointPoolState(
		DeviceIndex d, std::shared_ptr<caching::AllocatorState> state) override {
		if (auto ours = std::dynamic_pointer_cast<State>(state)) return restore(d, *ours);
		caching::CheckpointDelta delta =
			native->setCheckpointPoolState(d, std::move(state));
		for (DataPtr &p : delta.dataptrs_allocd) p = adopt(std::move(p));
		refresh(d);
		return delta;
	}

	// From now on native serves every request outside of libstalloc's pools, and all new pools.
	// libstalloc still frees its own blocks.
	void close() {
		if (!closed_.exchange(true)) native_openings_++;
	}

	// How many private pools are being allocated to where a stream may be captured.
	int open_captures() const {
		int sum = 0;
		for (size_t d = 0; d < books_.size(); d++)
			sum += library_.captures(static_cast<int>(d));
		return sum;
	}

      protected:
	// Whether native serves a request.
	bool native_serves(DeviceIndex device, cudaStream_t stream) {
		if (C10_LIKELY(!native_openings_.load(std::memory_order_relaxed))) return false;
		std::lock_guard<std::mutex> hold(pools_lock_);
		for (auto o = openings_.rbegin(); o != openings_.rend(); ++o)
			if (o->device == device && o->accepts(stream)) return o->native;
		return closed_;
	}
	bool captures() const override { return open_captures() > 0; }
	bool on_retain_pool(DeviceIndex d, MempoolId_t id) override {
		const bool ours = serves(d, id);
		if (ours) library_.retain_pool(d, id.first, id.second);
		return ours;
	}
	// What is idle of our pools goes back before memory runs out, unless graphs use it.
	bool on_use_on_oom(DeviceIndex d, MempoolId_t id) override {
		const bool theirs = !uses(d, id);
		native_on_oom_ = native_on_oom_ || theirs;
		return theirs;
	}
	void give_to_native(DeviceIndex d, MempoolId_t id) override {
		if (uses(d, id) != 1) return; // as its MemPool says when it is made
		library_.release_pool(d, id.first, id.second);
#if STALLOC_TORCH >= 208
		native->createOrIncrefPool(d, id, nullptr);
#endif
	}
	void empty_ours(MempoolId_t id) override {
		if (id == MempoolId_t{0, 0}) return library_.empty_cache();
		for (int d = 0; d < c10::cuda::device_count(); d++)
			library_.empty_pool(d, id.first, id.second);
	}

	std::atomic<bool> closed_{false}, native_on_oom_{false};

      private:
	struct Opening {
		DeviceIndex device;
		MempoolId_t id;
		Filter accepts;
		bool native;
	};
	struct State : caching::AllocatorState {
		MempoolId_t id;
		std::vector<Block> live;
	};

	std::mutex pools_lock_;
	std::vector<Opening> openings_;	      // of ours only to find the innermost
	std::atomic<int> native_openings_{0}; // and 1 once closed

	int uses(DeviceIndex d, MempoolId_t id) const {
		return library_.pool_uses(d, id.first, id.second);
	}
	// Whether libstalloc serves a pool, or is to serve it because nobody does yet.
	bool serves(DeviceIndex d, MempoolId_t id) const {
		if (uses(d, id)) return true;
		return !closed_ && isEnabled() && !native_has(d, id) && library_.serves_pools(d);
	}
	// Native throws if it does not know a pool.
	bool native_has(DeviceIndex d, MempoolId_t id) const try {
		return native->initialized() && native->getPoolUseCount(d, id) > 0;
	} catch (const c10::Error &) {
		return false;
	}
	// Whether a graph's capture is to follow. Its filter accepts no stream before that, and a
	// MemPool's accepts the current one.
	bool is_graph(DeviceIndex d, const Filter &filter) {
		const cudaStream_t stream = current_stream(d);
		cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
		try {
			if (cudaStreamIsCapturing(stream, &status) != cudaSuccess)
				(void)cudaGetLastError();
			return status != cudaStreamCaptureStatusNone || !filter(stream);
		} catch (const c10::Error &) {
			return true;
		}
	}
	// libstalloc must not wait for the device while native's pool may be part of a capture. Its
	// filter accepts no stream there.
	void begin_native(DeviceIndex d, MempoolId_t id, const Filter &filter) {
		Filter none = [](cudaStream_t) { return false; };
		native->beginAllocateToPool(d, id, filter);
		library_.begin_pool(d, 0, 0, &none);
	}
	std::vector<Block> blocks_of(DeviceIndex d, MempoolId_t id) const {
		const uint64_t pool[] = {id.first, id.second};
		return library_.blocks(d, pool);
	}

	// Makes the live blocks of a pool those of a checkpoint. What lives at the same place in
	// both stays there; for PyTorch it is freed and allocated.
	caching::CheckpointDelta restore(DeviceIndex d, const State &state) {
		caching::CheckpointDelta delta;
		auto key = [](const Block &b) { return std::make_tuple(b.ptr, b.asked, b.stream); };
		auto before = [&](const Block &x, const Block &y) { return key(x) < key(y); };
		const std::vector<Block> now = blocks_of(d, state.id);
		const uint64_t pool[] = {state.id.first, state.id.second};
		for (const Block &b : now) {
			delta.ptrs_freed.push_back(b.ptr);
			if (!std::binary_search(state.live.begin(), state.live.end(), b, before))
				raw_delete(b.ptr);
		}
		for (const Block &b : state.live) {
			if (!std::binary_search(now.begin(), now.end(), b, before)) {
				TORCH_CHECK(library_.malloc_at(b.ptr, b.asked, d, b.stream, pool) ==
						    STALLOC_OK,
					    "stalloc: a checkpoint of a private pool cannot be "
					    "restored: ",
					    library_.last_error());
				note_alloc(b);
			}
			delta.dataptrs_allocd.push_back(
				adopt({b.ptr, b.ptr, nullptr, c10::Device(c10::kCUDA, d)}));
		}
		return delta;
	}

      protected:
	DataPtr allocate_at(size_t size, void *at) override {
		const DeviceIndex d = current_device();
		const cudaStream_t stream = current_stream(d);
		if (native_serves(d, stream) ||
		    library_.malloc_at(at, size, d, stream, nullptr) != STALLOC_OK)
			return {};
		Block block;
		if (find(at, &block)) note_alloc(block);
		return adopt({at, at, nullptr, c10::Device(c10::kCUDA, d)});
	}
};

} // namespace stalloc
#endif
