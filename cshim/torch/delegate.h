// PyTorch's CUDA allocator interface, which changes from one minor version to the next. All
// differences from 2.6 to 2.15 are in this file: functions that are the same in all versions are
// derived classes', which have the hooks at the end for the others. What nobody here has a part in
// is passed on to the allocator that was installed before (native).
#ifndef STALLOC_TORCH_DELEGATE_H
#define STALLOC_TORCH_DELEGATE_H

#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/version.h>

#define STALLOC_TORCH (TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR)
#if STALLOC_TORCH < 206
#error "the adapter needs PyTorch 2.6 or newer"
#endif

namespace stalloc {

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DataPtr;
using c10::DeviceIndex;
using c10::CachingDeviceAllocator::DeviceStats;
using c10::cuda::MempoolId_t;
using Context = std::shared_ptr<c10::GatheredContext>;
using Filter = std::function<bool(cudaStream_t)>;

// The arguments of _record_memory_history.
struct HistoryRequest {
	bool enabled;
	caching::CreateContextFn recorder;
	size_t entries;
	caching::RecordContext when;
	bool clear;
	std::vector<std::string> skipped; // names of actions
};

class Delegate : public caching::CUDAAllocator {
      public:
	explicit Delegate(caching::CUDAAllocator *native) : native(native) {}

	void copy_data(void *to, const void *from, size_t n) const override {
		native->copy_data(to, from, n);
	}
	void init(int devices) override { native->init(devices); }
	bool initialized() override { return native->initialized(); }
	double getMemoryFraction(DeviceIndex d) override { return native->getMemoryFraction(d); }
	bool isEnabled() const override { return native->isEnabled(); }
	bool isHistoryEnabled() override { return native->isHistoryEnabled(); }
	void recordAnnotation(const std::vector<std::pair<std::string, std::string>> &md) override {
		native->recordAnnotation(md);
	}
	void enablePeerAccess(DeviceIndex d, DeviceIndex to) override {
		native->enablePeerAccess(d, to);
	}
	// It stays "native": programs use the name to check whether statistics, snapshots and pools
	// work.
	std::string name() override { return native->name(); }

#if STALLOC_TORCH >= 208
	void emptyCache(MempoolId_t id = {0, 0}) override {
		empty_ours(id);
		if (!captures()) native->emptyCache(id);
		on_empty_cache(id);
	}
	void pushCompileContext(std::string &md) override {
		native->pushCompileContext(md);
		on_compile_context(&md);
	}
	void popCompileContext() override {
		native->popCompileContext();
		on_compile_context(nullptr);
	}
#else
	void emptyCache() override {
		empty_ours({0, 0});
		if (!captures()) native->emptyCache();
		on_empty_cache({0, 0});
	}
	void ensureExistsAndIncrefPool(DeviceIndex d, MempoolId_t id) override {
		if (!on_retain_pool(d, id)) native->ensureExistsAndIncrefPool(d, id);
	}
#endif

#if STALLOC_TORCH >= 211
	caching::SnapshotInfo snapshot(MempoolId_t id = {0, 0}, bool traces = true) override {
		caching::SnapshotInfo info = native->snapshot(id, traces);
		on_snapshot(info, traces, id);
		return info;
	}
	void createOrIncrefPool(DeviceIndex d, MempoolId_t id,
				std::shared_ptr<CUDAAllocator> a = nullptr) override {
		if (a || !on_retain_pool(d, id)) native->createOrIncrefPool(d, id, std::move(a));
	}
	void setUseOnOOM(DeviceIndex d, MempoolId_t id, bool use) override {
		if (on_use_on_oom(d, id)) native->setUseOnOOM(d, id, use);
	}
	void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t entries,
			   caching::RecordContext when, bool clear,
			   const std::vector<std::string> &skipped) override {
		native->recordHistory(enabled, recorder, entries, when, clear, skipped);
		on_history({enabled, recorder, entries, when, clear, skipped});
	}
#elif STALLOC_TORCH >= 208
	caching::SnapshotInfo snapshot(MempoolId_t id = {0, 0}) override {
		caching::SnapshotInfo info = native->snapshot(id);
		on_snapshot(info, true, id);
		return info;
	}
	void createOrIncrefPool(DeviceIndex d, MempoolId_t id,
				CUDAAllocator *a = nullptr) override {
		if (a || !on_retain_pool(d, id)) native->createOrIncrefPool(d, id, a);
	}
	void setUseOnOOM(DeviceIndex d, MempoolId_t id) override {
		if (on_use_on_oom(d, id)) native->setUseOnOOM(d, id);
	}
	void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t entries,
			   caching::RecordContext when, bool clear) override {
		native->recordHistory(enabled, recorder, entries, when, clear);
		on_history({enabled, recorder, entries, when, clear, {}});
	}
#else
	caching::SnapshotInfo snapshot() override {
		caching::SnapshotInfo info = native->snapshot();
		on_snapshot(info, true, {0, 0});
		return info;
	}
	void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t entries,
			   caching::RecordContext when) override {
		native->recordHistory(enabled, recorder, entries, when);
		on_history({enabled, recorder, entries, when, true, {}});
	}
#endif

#if STALLOC_TORCH >= 210
	std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(DeviceIndex d) override {
		return native->getExpandableSegmentSizes(d);
	}
	void setNoSplit(DeviceIndex d, MempoolId_t id) override {
		give_to_native(d, id);
		native->setNoSplit(d, id);
	}
	void setUserMetadata(const std::string &metadata) override {
		native->setUserMetadata(metadata);
	}
	std::string getUserMetadata() override { return native->getUserMetadata(); }
#endif
#if STALLOC_TORCH >= 212
	Context getContextForPointer(const void *ptr) override {
		Context ours = context_of(ptr);
		return ours ? ours : native->getContextForPointer(ptr);
	}
	void attachOomRejectionObserver(caching::OomRejectionObserver o) override {
		native->attachOomRejectionObserver(std::move(o));
	}
#endif
#if STALLOC_TORCH >= 213
	void markCaptureBegin(DeviceIndex d) override { native->markCaptureBegin(d); }
	void markCaptureEnd(DeviceIndex d) override { native->markCaptureEnd(d); }
	DataPtr allocateWithAddress(size_t n, void *at) override {
		DataPtr ours = allocate_at(n, at);
		return ours ? std::move(ours) : adopt(native->allocateWithAddress(n, at));
	}
#endif
#if STALLOC_TORCH >= 214
	bool supportsUserMetadata() override { return native->supportsUserMetadata(); }
	void annotateMemory(const void *ptr, const std::string &metadata) override {
		if (!on_annotate(ptr, metadata)) native->annotateMemory(ptr, metadata);
	}
#endif

      protected:
	caching::CUDAAllocator *const native;

	// Native's own segments only.
	std::vector<caching::SegmentInfo> native_segments() {
#if STALLOC_TORCH >= 211
		return native->snapshot({0, 0}, false).segments;
#else
		return native->snapshot().segments;
#endif
	}

	virtual bool captures() const = 0; // a stream may be captured
	virtual void empty_ours(MempoolId_t id) = 0;
	virtual void on_empty_cache(MempoolId_t id) = 0;
	// Whether libstalloc serves the pool, which something uses from now on.
	virtual bool on_retain_pool(DeviceIndex d, MempoolId_t id) = 0;
	virtual bool on_use_on_oom(DeviceIndex d, MempoolId_t id) = 0; // native's
	virtual void give_to_native(DeviceIndex d, MempoolId_t id) = 0;
	virtual DataPtr allocate_at(size_t size, void *at) = 0;
	virtual void on_compile_context(const std::string *pushed) = 0; // NULL: popped
	virtual void on_history(const HistoryRequest &request) = 0;
	virtual void on_snapshot(caching::SnapshotInfo &info, bool traces, MempoolId_t id) = 0;
	virtual bool on_annotate(const void *ptr, const std::string &metadata) = 0;
	virtual Context context_of(const void *ptr) = 0;
	virtual DataPtr adopt(DataPtr &&p) = 0;
};

} // namespace stalloc
#endif
