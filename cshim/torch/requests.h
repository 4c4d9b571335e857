// Requests: libstalloc or native serves each, and memory that others can release comes before an
// error.
#ifndef STALLOC_TORCH_REQUESTS_H
#define STALLOC_TORCH_REQUESTS_H

#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/cuda/CUDAException.h>

#include <cstdio>

#include "pools.h"

namespace stalloc {

inline std::string amount(size_t size) {
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
	auto bytes = static_cast<double>(size);
	size_t unit = 0;
	for (; bytes >= 1024 && unit < 3; unit++) bytes /= 1024;
	char text[64];
	snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", bytes, units[unit]);
	return text;
}

class Requests : public Pools {
      public:
	using Pools::Pools;

	void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
		native->attachOutOfMemoryObserver(observer);
		std::lock_guard<std::mutex> hold(observers_lock_);
		observers_.push_back(std::move(observer));
	}
      protected:
	void *alloc(size_t size, DeviceIndex device, cudaStream_t stream) {
		if (C10_UNLIKELY(native_serves(device, stream)))
			return from_native(size, device, stream);
		Context frames = C10_UNLIKELY(recorder_.on())
					 ? recorder_.frames(RecordContext::STATE)
					 : nullptr;
		void *ptr = library_.malloc(size, device, stream);
		if (C10_UNLIKELY(!ptr)) {
			bool theirs = false;
			ptr = retry_or_throw(size, device, stream, frames, &theirs);
			if (theirs) return ptr;
		}
		if (C10_UNLIKELY(recorder_.on())) {
			Block block{ptr, stream, size, device, STALLOC_LIVE, {}};
			find(ptr, &block); // its pool
			note_alloc(block, std::move(frames));
		}
		if (C10_UNLIKELY(library_.stale(device)))
			refresh(device); // native may hold less by now
		if (const c10::impl::PyInterpreter *trace = c10::impl::GPUTrace::get_trace();
		    C10_UNLIKELY(trace))
			(*trace)->trace_gpu_memory_allocation(c10::kCUDA,
							      reinterpret_cast<uintptr_t>(ptr));
		report(ptr, rounded(size), device);
		return ptr;
	}
	void *from_native(size_t size, DeviceIndex device, cudaStream_t stream) {
		void *ptr = nullptr;
		try {
			ptr = native->raw_alloc_with_stream(size, stream);
		} catch (const c10::OutOfMemoryError &) {
			stalloc_stats s = library_.stats(device);
			if (s.reserved <= s.active) throw;
			library_.empty_cache(); // native can take what we release
			ptr = native->raw_alloc_with_stream(size, stream);
		}
		refresh(device);
		return ptr;
	}

      private:
	std::mutex observers_lock_;
	std::vector<caching::OutOfMemoryObserver> observers_;

	// libstalloc is out of memory: frees what others can release and retries, then throws
	// PyTorch's error. *theirs: native has served the request.
	C10_NOINLINE void *retry_or_throw(size_t size, DeviceIndex device, cudaStream_t stream,
					  const Context &frames, bool *theirs) {
		std::string why = library_.last_error();
		if (why.rfind("CUDA out of memory", 0) != 0) TORCH_CHECK(false, why);
		for (const auto &name : c10::FreeCudaMemoryCallbacksRegistry()->Keys())
			c10::FreeCudaMemoryCallbacksRegistry()->Create(name)->Execute();
		if (native->initialized()) Delegate::emptyCache();
		if (void *ptr = library_.malloc(size, device, stream)) return ptr;
		why = library_.last_error();
		if (native_on_oom_) { // some of native's pools may serve when memory runs out
			try {
				void *ptr = from_native(size, device, stream);
				*theirs = true;
				return ptr;
			} catch (const c10::OutOfMemoryError &) {
			}
		}
		out_of_memory(size, device, stream, frames, why);
	}

	[[noreturn]] void out_of_memory(size_t size, DeviceIndex device, cudaStream_t stream,
					const Context &frames, const std::string &why) {
		size_t free = 0, total = 0;
		C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
		Books &b = books_[device];
		{
			std::lock_guard<std::mutex> hold(b.lock);
			b.ooms++;
			if (recorder_.on())
				note(b, TraceEntry::OOM, device, reinterpret_cast<void *>(free),
				     size, {stream, {}}, frames);
		}
		DeviceStats s = getDeviceStats(device);
		const auto allocated = static_cast<size_t>(s.allocated_bytes[kAll].current),
			   reserved = static_cast<size_t>(s.reserved_bytes[kAll].current);
		c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(size), allocated, reserved,
						 c10::Device(c10::kCUDA, device));
		std::vector<caching::OutOfMemoryObserver> observers;
		{
			std::lock_guard<std::mutex> hold(observers_lock_);
			observers = observers_;
		}
		double fraction = native->initialized() ? native->getMemoryFraction(device) : 1;
		const auto allowed = static_cast<size_t>(fraction * static_cast<double>(total));
		for (const auto &observer : observers) observer(device, size, allowed, free);
		// libstalloc's text begins with the request, which PyTorch's words say already. No
		// iostreams: if the compiler links its own libstdc++, they clash with PyTorch's
		// locales.
		const size_t reason = why.find(": ");
		std::string text = "CUDA out of memory. Tried to allocate " + amount(size) +
				   ". GPU " + std::to_string(device) + " has a total capacity of " +
				   amount(total) + " of which " + amount(free) + " is free. ";
		if (fraction < 1) text += amount(allowed) + " allowed; ";
		text += "Of the allocated memory " + amount(allocated) +
			" is allocated by PyTorch, and " +
			amount(reserved - std::min(allocated, reserved)) +
			" is reserved by PyTorch but unallocated. stalloc: ";
		text += reason == std::string::npos ? why : why.substr(reason + 2);
		TORCH_CHECK_WITH(OutOfMemoryError, false, text);
	}
};

} // namespace stalloc
#endif
