// Private pools of libstalloc's: use_mem_pool, graphs, checkpoints. program.cc runs these.
#ifndef STALLOC_TEST_POOLS_H
#define STALLOC_TEST_POOLS_H

using c10::cuda::MempoolId_t;

static void *in(const char *file, const char *name) { return dlsym(dlopen(file, RTLD_NOW), name); }

// A function of the simulated driver.
static int driver(const char *name, void *stream) {
	std::string path = getenv("STALLOC_CONF");
	path = path.substr(path.find("driver:") + 7);
	path = path.substr(0, path.find(','));
	return reinterpret_cast<int (*)(void *)>(in(path.c_str(), name))(stream);
}

static void retain(MempoolId_t id) {
#if TORCH_VERSION_MINOR >= 8
	caching::get()->createOrIncrefPool(0, id);
#else
	caching::get()->ensureExistsAndIncrefPool(0, id);
#endif
}
static void trim([[maybe_unused]] MempoolId_t id) {
#if TORCH_VERSION_MINOR >= 8
	caching::emptyCache(id);
#else
	caching::emptyCache();
#endif
}
static void release(MempoolId_t id) { caching::get()->releasePool(0, id); }

// use_mem_pool.
struct Using {
	MempoolId_t id;
	explicit Using(MempoolId_t id) : id(id) {
		const auto me = std::this_thread::get_id();
		caching::get()->beginAllocateToPool(
			0, id, [me](cudaStream_t) { return std::this_thread::get_id() == me; });
	}
	~Using() {
		caching::get()->endAllocateToPool(0, id);
		release(id);
	}
};

// A graph, captured on a stream of PyTorch's from begin to end.
struct Graph {
	MempoolId_t id;
	c10::cuda::CUDAStream stream;
	bool capturing = false;

	static c10::cuda::CUDAStream capture_stream() { // one for all, as torch.cuda.graph has
		static c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool();
		return stream;
	}
	explicit Graph(MempoolId_t id) : id(id), stream(capture_stream()) {
		const cudaStream_t s = stream.stream();
		c10::cuda::CUDAStreamGuard guard(stream);
		caching::get()->beginAllocateToPool(
			0, id, [this, s](cudaStream_t asked) { return capturing && asked == s; });
		CHECK(driver("fakecuda_capture_begin", s) >= 0);
		capturing = true;
	}
	DataPtr get(size_t size) {
		c10::cuda::CUDAStreamGuard guard(stream);
		return caching::get()->allocate(size);
	}
	void stop() {
		CHECK(driver("fakecuda_capture_end", stream.stream()) == 1);
		capturing = false;
	}
	void end() {
		stop();
		caching::get()->endAllocateToPool(0, id);
	}
};

// What a snapshot says of a pool: bytes, and its live blocks.
static std::pair<size_t, std::set<void *>> shown(MempoolId_t id, size_t *others = nullptr) {
	std::pair<size_t, std::set<void *>> sum;
#if TORCH_VERSION_MINOR >= 8
	auto info = others ? caching::get()->snapshot() : caching::get()->snapshot(id);
#else
	auto info = caching::get()->snapshot();
#endif
	for (const auto &s : info.segments) {
		size_t at = s.address;
		if (s.owner_private_pool_id != id) {
			if (others) *others += s.total_size;
			continue;
		}
		sum.first += s.total_size;
		for (const auto &b : s.blocks) {
			if (b.allocated) sum.second.insert(reinterpret_cast<void *>(at));
			at += b.size;
		}
	}
	return sum;
}
static int64_t reserved() { return stats().reserved_bytes[0].current; }

static void program_pool() {
	const MempoolId_t id{0, 90}, inner{0, 91};
	auto *all = caching::get();
	caching::emptyCache();
	const int64_t before = allocated(), held_before = reserved();
	const size_t native = fake_used();
	retain(id);
	c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
	{
		Using pool(id);
		CHECK(all->getPoolUseCount(0, id) == 2);
		DataPtr a = get(30 * MiB), b = get(3000);
		CHECK(fake_used() == native && allocated() == before + int64_t(30 * MiB) + 3072);
		size_t others = 0;
		CHECK(shown(id, &others).second == (std::set<void *>{a.get(), b.get()}));
		CHECK(shown(id).first >= 30 * MiB);
		CHECK(others + shown(id).first == size_t(reserved()));
#if TORCH_VERSION_MINOR >= 15
		const auto pools = stats().reserved_bytes_by_private_pools;
		CHECK(pools.at(id)[0].current == int64_t(shown(id).first));
#endif
		CHECK(all->checkPoolLiveAllocations(0, id, {a.get(), b.get()}));
		CHECK(!all->checkPoolLiveAllocations(0, id, {a.get()}));
		CHECK(!all->checkPoolLiveAllocations(0, id, {a.get(), nullptr}));
		agree();
		void *other = nullptr;
		std::thread([&] { other = caching::raw_alloc(2 * MiB); }).join();
		CHECK(!shown(id).second.count(other));
		caching::raw_delete(other);
		a.clear();
		get(600 * MiB).clear();
		get(800 * MiB).clear(); // with what the pool has idle
		for (int i = 0; i < 4; i++) { // a late free is not put off until the pool's end
			DataPtr used = get(300 * MiB);
			caching::recordStream(used, side);
		}
		trim(id);
		CHECK(reserved() <= held_before + int64_t(8 * MiB));
		Using nested(inner); // serves
		DataPtr c = get(MiB);
		CHECK(shown(inner).second.count(c.get()) && shown(id).second.size() == 1);
	}
	CHECK(all->getPoolUseCount(0, id) == 1);
	release(id);
	trim(id);
	CHECK(allocated() == before && reserved() <= held_before + int64_t(2 * MiB));
	agree();
}

static void graphs() {
	const MempoolId_t id{92, 0};
	caching::emptyCache();
	const int64_t before = reserved();
	Graph first(id);
	DataPtr kept = first.get(20 * MiB), freed = first.get(60 * MiB);
	char *place = static_cast<char *>(freed.get());
	freed.clear();
	DataPtr outside = get(20 * MiB); // on another stream
	CHECK(!shown(id).second.count(outside.get()) && shown(id).second.count(kept.get()));
	caching::emptyCache(); // which does not end the capture
	first.end();
	Graph second(id);
	CHECK(second.get(60 * MiB).get() == place); // they share it by lifetime
	second.end();
	CHECK(caching::get()->getPoolUseCount(0, id) == 2);
	memset(place, 7, 60 * MiB); // a replay
	trim(id);
	caching::emptyCache();
	std::vector<DataPtr> full;
	try {
		for (;;) full.push_back(get(64 * MiB)), memset(full.back().get(), 1, 64 * MiB);
	} catch (const c10::OutOfMemoryError &) {
	}
	CHECK(std::all_of(place, place + 60 * MiB, [](char c) { return c == 7; }));
	full.clear();
	release(id);
	caching::emptyCache();
	CHECK(shown(id).first >= 80 * MiB);
	kept.clear(), outside.clear();
	release(id);
	caching::emptyCache();
	CHECK(shown(id).first == 0 && reserved() == before);
	agree();
}

// PyTorch throws at the end of the capture, and ends neither the pool nor its use; or only later.
static void failed_captures() {
	caching::emptyCache();
	const int64_t before = reserved();
	for (unsigned i = 0; i < 4; i++) {
		const MempoolId_t id{100 + i, 0};
		Graph graph(id);
		DataPtr a = graph.get(200 * MiB);
		graph.stop();
		a.clear();
		caching::emptyCache();
		CHECK(reserved() == before);
		if (i % 2 == 0) continue;
		caching::get()->endAllocateToPool(0, id);
		release(id);
	}
	agree();
}

// A pool without and with captures; what is live is written, and so is what a graph uses, whenever
// it is replayed: nobody else may have it.
static void checkpoints(unsigned seed) {
	const MempoolId_t id{0, 110 + seed};
	auto *all = caching::get();
	std::mt19937 random(seed);
	std::map<void *, std::pair<DataPtr, size_t>> live; // of the pool
	std::vector<std::pair<DataPtr, size_t>> others;
	struct Saved {
		std::shared_ptr<caching::AllocatorState> state;
		std::map<void *, size_t> blocks;
	};
	std::vector<Saved> saved;
	const int64_t before = allocated();
	retain(id);
	auto fill = [](void *at, size_t size, int value) { memset(at, value, size); };
	auto intact = [](const void *at, size_t size, int value) {
		const char *bytes = static_cast<const char *>(at);
		return bytes[0] == value && !memcmp(bytes, bytes + 1, size - 1);
	};
	for (int i = 0; i < 400; i++) {
		const size_t size = 512 * (1 + random() % (random() % 4 ? 3000 : 30000));
		if (random() % 3 && !live.empty()) {
			const auto n = static_cast<long>(random() % live.size());
			live.erase(std::next(live.begin(), n));
		} else if (random() % 4) {
			Using pool(id);
			DataPtr p = get(size);
			fill(p.get(), size, 3);
			live[p.get()] = {std::move(p), size};
		} else {
			if (others.size() > 10) others.erase(others.begin());
			others.emplace_back(get(size), size);
			fill(others.back().first.get(), size, 5);
		}
		if (i % 20 == 7) {
			Saved now{all->getCheckpointState(0, id), {}};
			for (auto &[at, p] : live) now.blocks[at] = p.second;
			saved.push_back(std::move(now));
		}
		if (i % 50 == 33) caching::emptyCache(), trim(id);
		if (i % 30 != 29) continue;
		const Saved &to = saved[random() % saved.size()];
		std::set<void *> was;
		for (auto &[at, p] : live) was.insert(at), p.first.release_context();
		live.clear();
		auto delta = all->setCheckpointPoolState(0, to.state);
		CHECK(std::set<void *>(delta.ptrs_freed.begin(), delta.ptrs_freed.end()) == was);
		for (DataPtr &p : delta.dataptrs_allocd) {
			void *at = p.get();
			CHECK(p.get_deleter() == all->raw_deleter());
			fill(at, to.blocks.at(at), 3);
			live[at] = {std::move(p), to.blocks.at(at)};
		}
		CHECK(live.size() == to.blocks.size());
		std::unordered_set<void *> expected;
		for (auto &[at, p] : live) expected.insert(at);
		CHECK(all->checkPoolLiveAllocations(0, id, expected));
		CHECK(shown(id).second == std::set<void *>(expected.begin(), expected.end()));
		for (auto &[p, n] : others) CHECK(intact(p.get(), n, 5));
		for (auto &[at, p] : live) CHECK(intact(at, p.second, 3));
		agree();
	}
	live.clear(), others.clear();
	CHECK(allocated() == before);
	release(id);
	caching::emptyCache();
	CHECK(shown(id).first == 0);
}

// A state that cannot be had is refused, and leaves no block twice.
static void bad_checkpoint() {
	const MempoolId_t id{0, 109};
	retain(id);
	void *at = nullptr;
	std::shared_ptr<caching::AllocatorState> state;
	{
		Using pool(id);
		DataPtr a = get(40 * MiB);
		at = a.get();
		state = caching::get()->getCheckpointState(0, id);
	}
	release(id);
	caching::emptyCache(); // its memory is gone
	try {
		caching::get()->setCheckpointPoolState(0, state);
		CHECK(!"nothing is mapped there");
	} catch (const c10::Error &e) {
		CHECK(strstr(e.what(), "cannot be restored"));
	}
	CHECK(at && !shown(id).second.count(at));
}

static void pools_of_our_own() {
	program_pool();
	graphs();
	failed_captures();
	for (unsigned seed = 0; seed < 4; seed++) checkpoints(seed);
	bad_checkpoint();
}

#endif
