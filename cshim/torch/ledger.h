// PyTorch's statistics of memory: each is the sum of native's and ours.
#ifndef STALLOC_TORCH_LEDGER_H
#define STALLOC_TORCH_LEDGER_H

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <array>

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
			tell(d, stats, false, true);
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
		stalloc_meters m;
		tell(d, sum);
		stalloc_stats s = library_.stats(d);
		library_.snapshot(d, &m, nullptr, 0);
		s = consistent(s, m);
		Books &b = books_[d];
		std::lock_guard<std::mutex> hold(b.lock);
		b.sample(s, sum);
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
		tell(d, theirs, true);
		stalloc_stats s = library_.stats(d);
		Books &b = books_[d];
		std::lock_guard<std::mutex> hold(b.lock);
		b.pool_peaks.clear();
		b.reserved.reset(s.reserved, theirs.reserved_bytes[kAll].current);
		b.active.reset(s.active, theirs.active_bytes[kAll].current);
	}

      protected:
	Library library_;
	std::array<Books, C10_COMPILE_TIME_MAX_GPUS> books_;

	static DeviceIndex current_device() {
		DeviceIndex device = 0;
		C10_CUDA_CHECK(c10::cuda::GetDevice(&device));
		return device;
	}
	// Cached: a stream's handle never changes, and looking it up sets the device twice.
	cudaStream_t current_stream(DeviceIndex device) {
		static thread_local struct {
			DeviceIndex device = -1;
			c10::StreamId id = 0;
			cudaStream_t handle = nullptr;
		} last;
		c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device);
		if (C10_UNLIKELY(last.device != device || last.id != stream.id())) {
			last.handle = stream.stream();
			last.device = device;
			last.id = stream.id();
			// External streams may be destroyed; all others are c10's and never are.
			const bool external = last.id != 0 && last.id % 2 == 0;
			if (!external) library_.lasting_stream(device, last.handle);
		}
		return last.handle;
	}

	bool find(void *ptr, Block *block) const {
		return ptr && library_.find(ptr, block) == STALLOC_OK;
	}

	// Tells libstalloc what native holds now; with reset all peaks start again.
	void tell(DeviceIndex d, const DeviceStats &theirs, bool reset = false,
		  bool peaks = false) {
		const stalloc_meters now = held_by(theirs, peaks);
		library_.set_other(d, &now, reset);
	}
	// Updates the meters after what native holds may have changed.
	void refresh(DeviceIndex device) {
		DeviceStats theirs = native->getDeviceStats(device);
		tell(device, theirs);
		Books &b = books_[device];
		std::lock_guard<std::mutex> hold(b.lock);
		if (b.reserved.other != theirs.reserved_bytes[kAll].current)
			b.sample(library_.stats(device), theirs);
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
