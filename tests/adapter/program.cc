// What the adapter does, without a GPU and without Python: PyTorch's own C++ libraries over a
// stand-in for CUDA's runtime, libstalloc over the simulated driver. Arguments: the adapter,
// libstalloc, and any third one under an emulator. tests/torch_headers.py builds and runs it.
#include <c10/core/StorageImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>
#include <sys/wait.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "viewer.h"

// What libtorch calls when it is loaded; no header says so.
namespace c10::cuda::_internal {
void setHasPrimaryContext(bool (*)(c10::DeviceIndex));
}

namespace caching = c10::cuda::CUDACachingAllocator;
using c10::DataPtr;

extern "C" size_t fake_used(void);

static constexpr size_t MiB = 1 << 20;

static DataPtr get(size_t size) { return caching::get()->allocate(size); }
static auto stats() { return caching::getDeviceStats(0); }
static int64_t allocated() { return stats().allocated_bytes[0].current; }
static int64_t peak() { return stats().allocated_bytes[0].peak; }
static caching::SnapshotInfo snapshot() { return caching::get()->snapshot(); }

static bool tracked; // a tracker is attached: snapshots show what is mapped

// Every statistic that a snapshot can tell, too.
static void agree() {
	int64_t reserved = 0, active = 0, live = 0, blocks = 0, requested = 0;
	for (const auto &s : snapshot().segments) {
		size_t inside = 0;
		for (const auto &b : s.blocks) inside += b.size, blocks += b.allocated;
		CHECK(inside == s.total_size);
		reserved += s.total_size, active += s.active_size, live += s.allocated_size,
			requested += s.requested_size;
	}
	auto now = stats();
	CHECK(tracked ? reserved >= now.reserved_bytes[0].current
		      : reserved == now.reserved_bytes[0].current);
	CHECK(active == now.active_bytes[0].current);
	CHECK(live == now.allocated_bytes[0].current);
	CHECK(requested == now.requested_bytes[0].current);
	CHECK(tracked ? blocks >= now.allocation[0].current : blocks == now.allocation[0].current);
	CHECK(now.allocated_bytes[0].current ==
	      now.allocated_bytes[0].allocated - now.allocated_bytes[0].freed);
}

static void blocks_and_counts() {
	const int64_t before = allocated();
	DataPtr a = get(10 * MiB), b = get(1000), none = get(0);
	CHECK(a.get() && b.get() && a.get() == a.get_context() && !none.get());
	CHECK(allocated() == before + int64_t(10 * MiB) + 1024);
	CHECK(stats().requested_bytes[0].current >= int64_t(10 * MiB) + 1000);
	agree();
	size_t size = 0;
	CHECK(caching::getBaseAllocation(b.get(), &size) == b.get() && size == 1024);
	std::thread([&] { a.clear(); }).join();
	b.clear();
	CHECK(allocated() == before && peak() >= before + int64_t(10 * MiB));
	void *raw = caching::raw_alloc(MiB);
	CHECK(allocated() == before + int64_t(MiB));
	caching::raw_delete(raw);
	caching::get()->resetPeakStats(0);
	CHECK(peak() == before);
	agree();
	size_t largest = 0;
	caching::cacheInfo(0, &largest);
	CHECK(largest > 0);
}

static void peaks_of_both(DataPtr &&older) {
	caching::get()->resetPeakStats(0);
	const int64_t with = allocated();
	older.clear(); // native's, which nobody tells us
	DataPtr a = get(4 * MiB);
	CHECK(peak() == with); // not with + 4 MiB: they were never there together
	DataPtr b = get(200 * MiB);
	CHECK(peak() == allocated());
}

static size_t (*held_by_pool)(int, uint64_t (*)[3], size_t);

static size_t held(c10::cuda::MempoolId_t id) {
	uint64_t pools[8][3];
	const size_t n = held_by_pool(0, pools, 8);
	CHECK(n <= 8 && held_by_pool(0, nullptr, 0) == n && held_by_pool(5, pools, 8) == 0);
	for (size_t i = 0; i < n; i++)
		if (pools[i][0] == id.first && pools[i][1] == id.second) return pools[i][2];
	return 0;
}

static const c10::cuda::MempoolId_t older_pool{0, 77};

// One that is older than the adapter stays native's.
static void private_pool() {
	const c10::cuda::MempoolId_t id = older_pool;
	const size_t native = fake_used();
	const int64_t before = allocated();
	auto *all = caching::get();
	all->beginAllocateToPool(0, id, [](cudaStream_t s) { return s == nullptr; });
	DataPtr graph = get(30 * MiB);
	CHECK(fake_used() >= native + 30 * MiB); // native's memory
	CHECK(held(id) >= 30 * MiB && held(id) < 60 * MiB && held({0, 78}) == 0);
	void *ours = caching::raw_alloc_with_stream(MiB, reinterpret_cast<cudaStream_t>(0x40));
	CHECK(fake_used() < native + 60 * MiB && allocated() == before + int64_t(31 * MiB));
	try {
		get(size_t{2} << 30);
		CHECK(!"more than there is");
	} catch (const c10::OutOfMemoryError &) {
	}
	CHECK(allocated() == before + int64_t(31 * MiB));
	auto state = all->getCheckpointState(0, id);
	CHECK(all->checkPoolLiveAllocations(0, id, {graph.get()}));
	all->endAllocateToPool(0, id);
	CHECK(graph.get_deleter() == all->raw_deleter());
	bool found = false;
	for (const auto &s : snapshot().segments)
		found |= s.owner_private_pool_id == id && s.allocated_size;
	CHECK(found);
	agree();
	caching::raw_delete(ours);
	auto delta = all->setCheckpointPoolState(0, state);
	CHECK(delta.ptrs_freed.size() == 1 && delta.dataptrs_allocd.size() == 1);
	graph.release_context(); // the checkpoint's own is its successor
	CHECK(delta.dataptrs_allocd[0].get_deleter() == all->raw_deleter());
	caching::recordStream(delta.dataptrs_allocd[0], c10::cuda::getStreamFromPool());
	delta.dataptrs_allocd.clear();
	all->releasePool(0, id);
	all->releasePool(0, id);
	CHECK(allocated() == before);
	caching::emptyCache();
	CHECK(held(id) == 0);
	agree();
}

#include "pools.h"

// While a stream may be captured nobody waits for the device, which would end that.
static void captured() {
	const c10::cuda::MempoolId_t id{0, 79}, other{0, 80};
	const auto graph = reinterpret_cast<cudaStream_t>(0x70);
	bool capturing = false;
	auto capture = [&](const char *name) {
		capturing = !capturing;
		return driver(name, graph);
	};
	auto accepts = [&](cudaStream_t s) { return s == graph && capturing; };
	auto ask = [](uintptr_t stream) {
		return caching::raw_alloc_with_stream(600 * MiB,
						      reinterpret_cast<cudaStream_t>(stream));
	};
	caching::raw_delete(ask(0x40));
	caching::get()->beginAllocateToPool(0, id, accepts);
	CHECK(capture("fakecuda_capture_begin") >= 0);
	caching::raw_delete(ask(0x40));
	try {
		ask(0x50);
		CHECK(!"memory that another stream may be at work with");
	} catch (const c10::OutOfMemoryError &) {
	}
	CHECK(capture("fakecuda_capture_end") == 1);
	caching::get()->endAllocateToPool(0, id);
	caching::get()->releasePool(0, id);
	caching::raw_delete(ask(0x50));
	caching::get()->beginAllocateToPool(0, other, [](cudaStream_t) { return true; });
	try { // of a pool without a capture: what is idle goes back first
		caching::raw_alloc_with_stream(size_t{2} << 30, graph);
		CHECK(!"more than there is");
	} catch (const c10::OutOfMemoryError &) {
	}
	CHECK(stats().reserved_bytes[0].current < int64_t(600 * MiB));
	caching::get()->endAllocateToPool(0, other);
	caching::get()->releasePool(0, other);
	agree();
}

struct Frames : c10::GatheredContext {};
static std::shared_ptr<c10::GatheredContext> gather() { return std::make_shared<Frames>(); }

static void record(bool on, size_t entries) {
	caching::get()->recordHistory(on, gather, entries, caching::RecordContext::ALL
#if TORCH_VERSION_MINOR >= 8
				      , true
#endif
#if TORCH_VERSION_MINOR >= 11
				      , {}
#endif
	);
}

static void history() {
	using caching::TraceEntry;
	static int seen = 0; // the tracker stays
	caching::get()->attachAllocatorTraceTracker(
		[counter = &seen](const TraceEntry &) { ++*counter; });
	tracked = true;
	record(true, 6);
	CHECK(caching::get()->isHistoryEnabled());
	DataPtr kept = get(3 * MiB);
	get(MiB).clear();
	auto info = snapshot();
	std::vector<TraceEntry::Action> actions;
	int64_t last = 0;
	for (const auto &e : info.device_traces[0]) {
		CHECK(e.time_.t_ >= last);
		last = e.time_.t_;
		if (e.size_ != 3 * MiB && e.size_ != MiB) continue;
		actions.push_back(e.action_);
		CHECK(e.context_ != nullptr);
	}
	using A = TraceEntry;
	CHECK((actions == std::vector<A::Action>{A::SEGMENT_MAP, A::ALLOC, A::SEGMENT_MAP, A::ALLOC,
						 A::FREE_REQUESTED, A::FREE_COMPLETED}));
	bool framed = false;
	for (const auto &s : info.segments)
		for (const auto &b : s.blocks)
			framed |= b.requested_size == 3 * MiB && b.context_when_allocated;
	CHECK(framed);
	for (int i = 0; i < 10; i++) get(MiB + 1).clear();
	size_t ours = 0;
	auto after = snapshot();
	for (const auto &e : after.device_traces[0]) {
		ours += e.size_ == MiB + 1;
		CHECK(e.size_ != 3 * MiB);
	}
	CHECK(ours == 6 && seen > 30);
	record(false, 1);
}

// A history tells where memory was at any time: PyTorch's viewer draws nothing otherwise.
static void memory_through_time() {
	std::vector<DataPtr> live;
	for (int i = 0; i < 5; i++) live.push_back(get(3 * MiB));
	caching::resetPeakStats(0);
	record(true, 100000);
	const MempoolId_t pool{120, 0};
	Graph graph(pool);
	graph.get(9 * MiB).clear();
	graph.end();
	std::mt19937 random(1);
	c10::cuda::CUDAStream streams[] = {c10::cuda::getDefaultCUDAStream(),
					   c10::cuda::getStreamFromPool()};
	for (int i = 0; i < 3000; i++) {
		c10::cuda::CUDAStreamGuard guard(streams[random() % 8 == 0]);
		if (live.empty() || random() % 20 > live.size() % 20) {
			size_t size = 512 + random() % (random() % 3 ? 100000 : 4 * MiB);
			if (static_cast<size_t>(allocated()) + size < 400 * MiB)
				live.push_back(get(size));
		} else {
			std::swap(live[random() % live.size()], live.back());
			live.pop_back();
		}
		if (i % 700 == 699) caching::emptyCache();
	}
	CHECK(shown(pool).first >= 9 * MiB); // which the graph remembers
	auto info = snapshot();
	View view;
	for (const auto &s : info.segments) {
		size_t at = s.address;
		view.map(at, s.total_size, s.stream);
		for (const auto &b : s.blocks) {
			if (b.allocated) view.blocks[at] = b.requested_size;
			at += b.size;
		}
	}
	agree();
	const auto &events = info.device_traces[0];
	int comings = 0, goings = 0;
	size_t most = view.check();
	for (auto e = events.rbegin(); e != events.rend(); ++e) {
		view.back(*e);
		most = std::max(most, view.check());
		comings += e->action_ == caching::TraceEntry::SEGMENT_MAP;
		goings += e->action_ == caching::TraceEntry::SEGMENT_UNMAP;
	}
	CHECK(events.size() > 4000 && comings > 10 && goings > 10);
	CHECK(view.blocks.size() == 5 &&
	      most <= static_cast<size_t>(stats().reserved_bytes[0].peak) + 4 * MiB);
	release(pool);
	caching::emptyCache();
	CHECK(shown(pool).first == 0);
	record(false, 1);
}

// Trackers hear of exactly what snapshots show, and of the end of each segment while it is there.
static void trackers(const char *path) {
	using A = caching::TraceEntry;
	static std::map<size_t, size_t> segments;
	static bool throws = false;
	static int comings = 0, goings = 0;
	DataPtr before = get(33 * MiB), gap = get(5 * MiB), after = get(1000);
	gap.clear();
	CHECK(!tracked);
	for (const auto &s : snapshot().segments)
		segments[s.address] = s.total_size; // places, as nobody listens yet
	caching::get()->attachAllocatorTraceTracker([](const caching::TraceEntry &e) {
		const auto next = segments.upper_bound(e.addr_);
		if (e.action_ == A::SEGMENT_ALLOC) {
			CHECK(next == segments.end() || next->first >= e.addr_ + e.size_);
			CHECK(next == segments.begin() ||
			      std::prev(next)->first + std::prev(next)->second <= e.addr_);
			segments[e.addr_] = e.size_, comings++;
		} else if (e.action_ == A::SEGMENT_FREE) {
			CHECK(segments.at(e.addr_) == e.size_);
			if (tracked)
				(void)*reinterpret_cast<volatile char *>(e.addr_ + e.size_ -
									 1); // it is still mapped
			segments.erase(e.addr_), goings++;
		} else {
			CHECK(e.action_ != A::SEGMENT_MAP && e.action_ != A::SEGMENT_UNMAP);
		}
		if (throws && e.action_ == A::SEGMENT_FREE)
			throw std::runtime_error("a tracker that throws");
	});
	tracked = true;
	auto same = [] {
		std::map<size_t, size_t> shown;
		for (const auto &s : snapshot().segments) shown[s.address] = s.total_size;
		CHECK(shown == segments);
		agree();
	};
	auto covered = [](const DataPtr &p, size_t size) {
		for (size_t at = reinterpret_cast<size_t>(p.get()), end = at + size; at < end;) {
			auto s = segments.upper_bound(at);
			CHECK(s != segments.begin());
			--s;
			CHECK(s->first + s->second > at);
			at = s->first + s->second;
		}
	};
	same();
	covered(before, 33 * MiB), covered(after, 1000);
	std::mt19937 random(2);
	std::vector<std::pair<DataPtr, size_t>> live;
	for (int i = 0; i < 600; i++) {
		size_t size = random() % (i % 3 ? 3 * MiB : 60 * MiB);
		if (live.size() > 3 &&
		    (random() % 2 || static_cast<size_t>(allocated()) + size > 500 * MiB)) {
			std::swap(live[random() % live.size()], live.back());
			live.pop_back();
		} else {
			live.emplace_back(get(size + 1), size + 1);
			covered(live.back().first, size);
		}
		if (i % 50 == 0) same();
		if (i % 150 == 149) caching::emptyCache();
	}
	auto in = [&](const char *name) { return dlsym(dlopen(path, RTLD_NOW), name); };
	auto pause = reinterpret_cast<int (*)(int, const char *const *, size_t, int)>(
		in("stalloc_pause"));
	auto resume =
		reinterpret_cast<int (*)(int, const char *const *, size_t)>(in("stalloc_resume"));
	same();
	throws = true; // which ends neither a pause nor the others' hearing of it
	const size_t awake = segments.size();
	CHECK(pause(0, nullptr, 0, 0) == 0 && segments.size() < awake / 2);
	throws = false;
	CHECK(resume(0, nullptr, 0) == 0);
	for (auto &[p, size] : live) covered(p, size);
	same();
	live.clear();
	caching::emptyCache();
	same();
	CHECK(comings > 50 && goings > 50);
}

static int collected; // how often memory was asked back

struct Collect : c10::FreeMemoryCallback {
	bool Execute() override { return collected++; }
};
namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK("collect", Collect);
}

static void out_of_memory() {
	int told = 0;
	size_t asked = 0;
	caching::attachOutOfMemoryObserver(
		[&](int64_t, size_t size, size_t, size_t) { told++, asked = size; });
	const auto ooms = stats().num_ooms;
	try {
		get(size_t{8} << 30);
		CHECK(!"out of memory");
	} catch (const c10::OutOfMemoryError &e) {
		std::string text = e.what_without_backtrace();
		CHECK(text.find("CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 ") == 0);
		CHECK(text.find("stalloc: ") != std::string::npos);
		puts(text.c_str());
	}
	CHECK(collected > 0 && told == 1 && asked == size_t{8} << 30 &&
	      stats().num_ooms == ooms + 1);
	try {
		get(size_t{1} << 61);
		CHECK(!"out of memory");
	} catch (const c10::OutOfMemoryError &) {
	}
	get(8 * MiB).clear();
	agree();
}

static void limits() {
	caching::setMemoryFraction(0.25, 0);
	CHECK(caching::getMemoryFraction(0) == 0.25);
	try {
		get(300 * MiB);
		CHECK(!"refused");
	} catch (const c10::OutOfMemoryError &) {
	}
	caching::setMemoryFraction(1, 0);
	get(300 * MiB).clear();
}

static void moves_to_be_shared() {
	void *library = dlopen(getenv("ADAPTER"), RTLD_NOW);
	auto make = reinterpret_cast<int (*)(void *, char *, size_t)>(
		dlsym(library, "stalloc_adapter_make_shareable"));
	char text[256];
	auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
							     5 * MiB, get(5 * MiB),
							     c10::GetAllocator(c10::kCUDA), true);
	const size_t native = fake_used();
	const void *before = storage->data();
	CHECK(make(storage.get(), text, sizeof text) == 1 && storage->data() != before &&
	      fake_used() > native);
	CHECK(make(storage.get(), text, sizeof text) == 0);
	agree();
	DataPtr stays = get(MiB);
	try {
		caching::get()->shareIpcHandle(stays.get());
		CHECK(!"it can be shared");
	} catch (const c10::Error &e) {
		CHECK(strstr(e.what(), "share:fd"));
	}
}

// With share:fd or share:fabric nothing moves. This process is its own receiver.
static void shares(const char *path) {
	if (!strstr(getenv("STALLOC_CONF"), "share:f")) return moves_to_be_shared();
	auto make = reinterpret_cast<int (*)(void *, char *, size_t)>(
		dlsym(dlopen(getenv("ADAPTER"), RTLD_NOW), "stalloc_adapter_make_shareable"));
	auto base = reinterpret_cast<void *(*)(void *, size_t *)>(
		dlsym(dlopen(path, RTLD_NOW), "stalloc_base"));
	char text[256];
	const size_t native = fake_used();
	auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
							     50 * MiB, get(50 * MiB),
							     c10::GetAllocator(c10::kCUDA), true);
	char *here = static_cast<char *>(storage->mutable_data());
	CHECK(make(storage.get(), text, sizeof text) == 0 && storage->data() == here &&
	      fake_used() == native);
	memset(here, 3, 50 * MiB);
	auto handle = caching::get()->shareIpcHandle(here),
	     part = caching::get()->shareIpcHandle(here + 7 * MiB);
	CHECK(handle.handle == part.handle &&
	      part.offset == handle.offset + static_cast<ptrdiff_t>(7 * MiB));
	auto there = caching::get()->getIpcDevPtr(handle.handle),
	     again = caching::get()->getIpcDevPtr(part.handle);
	CHECK(there == again && there.use_count() == 2);
	char *other = static_cast<char *>(there.get()) + handle.offset;
	CHECK(other != here && other[0] == 3 && other[50 * MiB - 1] == 3);
	here[9] = 4;
	CHECK(other[9] == 4 && base(other, nullptr) == nullptr);
	there.reset(), again.reset();
	CHECK(here[9] == 4);
	try {
		caching::get()->getIpcDevPtr("stalloc1 1 2 3/2097152/1");
		CHECK(!"process 1 is another");
	} catch (const c10::Error &e) {
		CHECK(strstr(e.what(), "has ended or is in another container"));
	}
	storage.reset();
	agree();
}

static void forked_child() {
	DataPtr block = get(MiB);
	if (pid_t child = fork()) {
		int status = 0;
		waitpid(child, &status, 0);
		CHECK(status == 0);
	} else {
		block.clear();
		try {
			get(MiB);
		} catch (const c10::Error &) {
			_exit(0);
		}
		_exit(1);
	}
}

static void threads() {
	const int64_t before = allocated();
	std::vector<std::thread> all;
	for (int t = 0; t < 4; t++)
		all.emplace_back([] {
			std::vector<DataPtr> held(20);
			for (int i = 0; i < 5000; i++) held[i % 20] = get(size_t(1 + i % 97) << 12);
		});
	for (auto &t : all) t.join();
	CHECK(allocated() == before);
	agree();
}

// What sleeps is refused, private pools' memory stays, and what wakes is where it was.
static void sleeps(const char *path) {
	auto pause = reinterpret_cast<int (*)(int, const char *const *, size_t, int)>(
		in(path, "stalloc_pause"));
	auto resume = reinterpret_cast<int (*)(int, const char *const *, size_t)>(
		in(path, "stalloc_resume"));
	auto begin = reinterpret_cast<int (*)(const char *)>(in(path, "stalloc_begin_region"));
	auto end = reinterpret_cast<int (*)()>(in(path, "stalloc_end_region"));
	auto pools =
		reinterpret_cast<int (*)()>(in(getenv("ADAPTER"), "stalloc_adapter_open_pools"));
	const char *weights[] = {"weights"};
	CHECK(begin("weights") == 0);
	DataPtr kept = get(5 * MiB);
	CHECK(end() == 0);
	DataPtr other = get(3 * MiB), dropped = get(MiB);
	memset(kept.get(), 1, 5 * MiB), memset(other.get(), 2, 3 * MiB);
	const int64_t before = allocated();
	CHECK(pause(0, weights, 1, 0) == 0);
	get(3 * MiB).clear();
	CHECK(static_cast<char *>(other.get())[0] == 2);
	for (int i = 0; i < 2; i++) {
		CHECK(pause(0, nullptr, 0, 0) == 0 && allocated() == before);
		try {
			get(MiB);
			CHECK(!"it sleeps");
		} catch (const c10::OutOfMemoryError &) {
			CHECK(!"which is not out of memory");
		} catch (const c10::Error &e) {
			CHECK(strstr(e.what(), "sleeps"));
		}
		caching::emptyCache();
		snapshot();
	}
	dropped.clear();
	const c10::cuda::MempoolId_t id{0, 78}, graph{78, 0};
	CHECK(pools() == 0);
	caching::get()->beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
	CHECK(pools() == 0);
	get(MiB).clear(); // of a pool that does not sleep
	caching::get()->endAllocateToPool(0, id);
	caching::get()->releasePool(0, id);
	caching::get()->beginAllocateToPool(0, graph, [](cudaStream_t) { return false; });
	CHECK(pools() == 1); // a capture is to follow
	caching::get()->endAllocateToPool(0, graph);
	caching::get()->releasePool(0, graph);
	CHECK(resume(0, nullptr, 0) == 0);
	CHECK(std::string(static_cast<char *>(kept.get()), 5 * MiB) == std::string(5 * MiB, 1));
	CHECK(std::string(static_cast<char *>(other.get()), 3 * MiB) == std::string(3 * MiB, 2));
	kept.clear();
	caching::emptyCache();
	agree();
}

// Native serves from here on; what was served before is freed where it came from.
static void closed(const char *path) {
	auto close_adapter = reinterpret_cast<void (*)()>(
		dlsym(dlopen(getenv("ADAPTER"), RTLD_NOW), "stalloc_adapter_close"));
	auto close_library =
		reinterpret_cast<int (*)(int)>(dlsym(dlopen(path, RTLD_NOW), "stalloc_close"));
	const int64_t before = allocated();
	const size_t native = fake_used();
	DataPtr ours = get(40 * MiB);
	CHECK(fake_used() < native + 40 * MiB);
	for (int i = 0; i < 2; i++) {
		close_adapter();
		CHECK(close_library(-1) == 0);
	}
	DataPtr theirs = get(30 * MiB);
	CHECK(fake_used() >= native + 30 * MiB && theirs.get_deleter() == ours.get_deleter());
	CHECK(allocated() == before + int64_t(70 * MiB));
	agree();
	ours.clear();
	theirs.clear();
	caching::get()->emptyCache();
	CHECK(allocated() == before && stats().reserved_bytes[0].current < int64_t(30 * MiB));
	agree();
}

int main(int, char **arguments) {
	c10::cuda::_internal::setHasPrimaryContext(
		[](c10::DeviceIndex) { return true; }); // as libtorch does
	caching::init(1);
	DataPtr older = get(100 * MiB); // before the adapter is there
	caching::get()->beginAllocateToPool(0, older_pool, [](cudaStream_t) { return false; });
	caching::get()->endAllocateToPool(0, older_pool);
	void *library = dlopen(arguments[1], RTLD_NOW);
	if (!library) fprintf(stderr, "%s\n", dlerror()), exit(1);
	setenv("ADAPTER", arguments[1], 1);
	auto install = reinterpret_cast<int (*)(const char *, char *, size_t)>(
		dlsym(library, "stalloc_adapter_install"));
	char text[256];
	if (install(arguments[2], text, sizeof text) < 0) fprintf(stderr, "%s\n", text), exit(1);
	held_by_pool =
		reinterpret_cast<decltype(held_by_pool)>(dlsym(library, "stalloc_adapter_held"));
	CHECK(held({0, 0}) == 100 * MiB); // which is older
	CHECK(allocated() == int64_t(100 * MiB) && c10::GetAllocator(c10::kCUDA) == caching::get());
	blocks_and_counts();
	peaks_of_both(std::move(older));
	private_pool();
	captured();
	pools_of_our_own();
	out_of_memory();
	limits();
	shares(arguments[2]);
	threads();
	sleeps(arguments[2]);
	trackers(arguments[2]);
	history();
	memory_through_time();
	if (!arguments[3]) forked_child(); // qemu says that it wipes pages on fork, and does not
	closed(arguments[2]);
	DataPtr late = get(MiB);
	late.release_context(); // as a tensor that nobody frees
	puts("ok");
}
