// A CUDA allocator for PyTorch on top of libstalloc. "native" is the allocator that it replaces.
//
// allocate() looks up the current device and stream, and libstalloc serves the request, those of
// private pools (a graph capture, use_mem_pool), too; native serves pools with an allocator of
// their own (pools.h). The tensor's deleter is release(), which frees the block in libstalloc; a
// block that libstalloc does not know is native's (from such a pool, or allocated before the
// adapter was installed). The adapter keeps nothing per block except stack frames while memory
// history is recorded.
//
// Blocks of both allocators have the same deleter, because graph trees compare the deleters of what
// is in their pools with raw_deleter(). Only tensors older than the adapter keep native's deleter,
// and are freed there without passing through here.
//
// No function here takes the GIL, except through the recorder of memory history, which is called
// without any lock, and through out-of-memory observers. In a forked child nothing is allocated and
// nothing freed.
#include <c10/core/StorageImpl.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "imports.h"
#include "requests.h"

namespace stalloc {
namespace {

std::atomic<bool> forked{false};
void release(void *ptr);
void remapped(int device, void *at, size_t size, int change);

class Adapter final : public Requests {
      public:
	Adapter(caching::CUDAAllocator *native, const char *path) : Requests(native, path) {
		const char *uncached = getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
		enabled_ = !(uncached && !strcmp(uncached, "1")) && native->isEnabled();
	}

	// Requests.

	DataPtr allocate(size_t size) override {
		TORCH_CHECK_WITH(OutOfMemoryError, size < size_t{1} << 60,
				 "CUDA out of memory. Tried to allocate more than 1EB memory.");
		if (C10_UNLIKELY(!enabled_)) return native->allocate(size);
		DeviceIndex device = current_device();
		void *ptr = size ? alloc(size, device, current_stream(device)) : nullptr;
		return {ptr, ptr, &release, c10::Device(c10::kCUDA, device)};
	}
	void *raw_alloc(size_t size) override {
		if (C10_UNLIKELY(!enabled_)) return native->raw_alloc(size);
		DeviceIndex device = current_device();
		return size ? alloc(size, device, current_stream(device)) : nullptr;
	}
	void *raw_alloc_with_stream(size_t size, cudaStream_t stream) override {
		if (C10_UNLIKELY(!enabled_)) return native->raw_alloc_with_stream(size, stream);
		return size ? alloc(size, current_device(), stream) : nullptr;
	}
	void raw_delete(void *ptr) override {
		if (C10_UNLIKELY(!ptr || forked)) return;
		Block block;
		const bool recorded = recorder_.on(),
			   watched = recorded || c10::memoryProfilingEnabled();
		const bool ours = C10_UNLIKELY(watched) && find(ptr, &block);
		if (C10_UNLIKELY(recorded && ours))
			note_free(block, recorder_.frames(RecordContext::ALL));
		if (C10_UNLIKELY(library_.release(ptr) != STALLOC_OK)) {
			native->raw_delete(ptr);
			return;
		}
		if (const c10::impl::PyInterpreter *trace = c10::impl::GPUTrace::get_trace();
		    C10_UNLIKELY(trace))
			(*trace)->trace_gpu_memory_deallocation(c10::kCUDA,
								reinterpret_cast<uintptr_t>(ptr));
		if (C10_UNLIKELY(ours))
			report(ptr, -rounded(block.asked), static_cast<DeviceIndex>(block.device));
	}
	c10::DeleterFnPtr raw_deleter() const override {
		return enabled_ ? &release : native->raw_deleter();
	}
	void enable(bool value) override {
		native->enable(value);
		enabled_ = value;
	}
	// Follows what libstalloc maps from now on.
	void listen() { library_.set_tracker(&stalloc::remapped); }

	// What cannot be paused on a device, by pool: what native holds ({0, 0}: its default pool),
	// and our private pools.
	std::map<MempoolId_t, size_t> held(DeviceIndex device) {
		std::map<MempoolId_t, size_t> sums;
		for (const auto &s : native_segments())
			if (s.device == device) sums[s.owner_private_pool_id] += s.total_size;
		for (const auto &[first, second, bytes] : library_.pools(device))
			sums[{first, second}] += bytes;
		return sums;
	}

	void recordStream(const DataPtr &p, c10::cuda::CUDAStream stream) override {
		Block block;
		if (p.get_deleter() != &release) {
			native->recordStream(
				p, stream); // older than the adapter, or of another process
		} else if (find(p.get(), &block)) {
			if (stream.stream() != block.stream)
				library_.record_stream(p.get(), stream.stream());
		} else if (p.get()) { // native checks the deleter
			DataPtr theirs(p.get(), p.get(), native->raw_deleter(), p.device());
			native->recordStream(theirs, stream);
			theirs.release_context();
		}
	}
	// Our memory is mapped, not cudaMalloc's: between devices only the peer copy can read it.
	cudaError_t memcpyAsync(void *to, int to_device, const void *from, int from_device,
				size_t n, cudaStream_t s, bool p2p) override {
		if (p2p || to_device == from_device)
			return native->memcpyAsync(to, to_device, from, from_device, n, s, p2p);
		return cudaMemcpyPeerAsync(to, to_device, from, from_device, n, s);
	}
	caching::ShareableHandle shareIpcHandle(void *ptr) override {
		caching::ShareableHandle handle;
		if (exported(ptr, &handle)) return handle;
		size_t size = 0;
		TORCH_CHECK(!library_.base(ptr, &size), "stalloc: ", library_.last_error(),
			    "; or share a tensor through torch.multiprocessing, which moves its "
			    "storage first");
		return native->shareIpcHandle(ptr);
	}
	std::shared_ptr<void> getIpcDevPtr(std::string token) override {
		if (token.rfind(kToken, 0) != 0) return native->getIpcDevPtr(std::move(token));
		std::shared_ptr<void> there = imports_.get(token, current_device());
		TORCH_CHECK(there, "stalloc: ", library_.last_error());
		return there;
	}
	// Moves a storage to native memory, which other processes can open. False: it needs no
	// move.
	bool make_shareable(c10::StorageImpl *storage) {
		Block block;
		void *from = storage->mutable_data();
		caching::ShareableHandle handle;
		if (!find(from, &block) || exported(from, &handle)) return false;
		c10::cuda::CUDAGuard guard(storage->device());
		DataPtr fresh = adopt(native->allocate(block.asked));
		c10::cuda::device_synchronize(); // wait for pending writes to the old block
		native->copy_data(fresh.get(), from, storage->nbytes());
		c10::cuda::device_synchronize();
		storage->set_data_ptr(std::move(fresh));
		refresh(guard.current_device().index());
		return true;
	}

	// Limits and statistics.

	void setMemoryFraction(double fraction, DeviceIndex d) override {
		native->setMemoryFraction(fraction, d);
		library_.set_memory_fraction(fraction, d);
	}

      protected:
	void on_empty_cache(MempoolId_t id) override {
		if (id == MempoolId_t{0, 0})
			drop_idle_places(recorder_.on() ? recorder_.frames(RecordContext::ALL)
							: nullptr);
		refresh_all();
	}
	DataPtr adopt(DataPtr &&p) override {
		void *ptr = p.get();
		DataPtr ours(ptr, ptr, &release, p.device());
		p.release_context();
		return ours;
	}

      private:
	Imports imports_{library_};
	std::atomic<bool> enabled_{true};

	// Exports the block that contains ptr to other processes. False: it cannot be exported.
	bool exported(void *ptr, caching::ShareableHandle *out) const {
		size_t offset = 0;
		long length = 256;
		do {
			out->handle.resize(static_cast<size_t>(length) + 1);
			length = library_.export_block(ptr, &offset, out->handle.data(),
						       out->handle.size());
			if (length < 0) return false;
		} while (static_cast<size_t>(length) >= out->handle.size());
		out->handle.resize(static_cast<size_t>(length));
		out->offset = static_cast<ptrdiff_t>(offset);
		return true;
	}
};

Adapter *adapter; // never deleted: tensors are freed until the process ends

void release(void *ptr) { adapter->raw_delete(ptr); }

void remapped(int device, void *at, size_t size, int change) {
	adapter->remapped(device, at, size, change);
}

int failed(char *text, size_t length, const char *why) {
	snprintf(text, length, "%s", why);
	return -1;
}

} // namespace
} // namespace stalloc

// Called from Python. 0 or 1: done; -1: it failed, and `text` says why.
extern "C" {

// The version of PyTorch whose headers these are.
__attribute__((visibility("default"))) const char *stalloc_adapter_torch() { return TORCH_VERSION; }

__attribute__((visibility("default"))) int stalloc_adapter_install(const char *library, char *text,
								   size_t length) try {
	using namespace stalloc;
	caching::CUDAAllocator *native = caching::allocator.load();
	if (adapter) return 0;
	if (native->name() != "native")
		return failed(text, length, ("PyTorch's allocator is " + native->name()).c_str());
	adapter = new Adapter(native, library);
	adapter->listen();
	pthread_atfork(nullptr, nullptr, [] { forked = true; });
	caching::allocator.store(adapter);
	c10::SetAllocator(c10::kCUDA, adapter, 255); // above those registered at start-up
	return 0;
} catch (const std::exception &error) {
	return stalloc::failed(text, length, error.what());
}

__attribute__((visibility("default"))) void stalloc_adapter_close() {
	if (stalloc::adapter) stalloc::adapter->close();
}

__attribute__((visibility("default"))) int stalloc_adapter_open_pools() {
	return stalloc::adapter ? stalloc::adapter->open_captures() : 0;
}

// How many pools hold memory of a device that cannot be paused; writes id and bytes of at most
// `room` of them.
__attribute__((visibility("default"))) size_t stalloc_adapter_held(int device, uint64_t (*pools)[3],
								   size_t room) try {
	if (!stalloc::adapter) return 0;
	size_t n = 0;
	for (const auto &[id, bytes] :
	     stalloc::adapter->held(static_cast<c10::DeviceIndex>(device))) {
		if (n < room) pools[n][0] = id.first, pools[n][1] = id.second, pools[n][2] = bytes;
		n++;
	}
	return n;
} catch (const std::exception &) {
	return 0;
}

// Called before a storage is sent to another process; `storage` is its _cdata.
__attribute__((visibility("default"))) int stalloc_adapter_make_shareable(void *storage, char *text,
									  size_t length) try {
	return stalloc::adapter && stalloc::adapter->make_shareable(
					   static_cast<c10::StorageImpl *>(storage))
		       ? 1
		       : 0;
} catch (const std::exception &error) {
	return stalloc::failed(text, length, error.what());
}
}
