// libstalloc.so, opened by the path that the Python package found. It is not linked, because the
// adapter is compiled on another machine or at another time than the library.
#ifndef STALLOC_TORCH_LIBRARY_H
#define STALLOC_TORCH_LIBRARY_H

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "stalloc_torch.h"

namespace stalloc {

#define STALLOC_USED(X)                                                                     \
	X(malloc) X(release) X(base) X(find) X(record_stream) X(lasting_stream) X(malloc_at) \
	X(begin_pool) X(end_pool) X(release_pool) X(pool_purpose) X(retain_pool)            \
	X(pool_uses) X(empty_pool) X(capture_pool) X(captures) X(serves_pools) X(pools_held) \
	X(empty_cache) X(set_memory_fraction) X(get_stats) X(reset_peak) X(last_error)      \
	X(snapshot) X(set_other) X(stale) X(set_tracker) X(export_block) X(import_block)    \
	X(end_import)

struct Library {
#define STALLOC_FIELD(name) decltype(&stalloc_##name) name = nullptr;
	STALLOC_USED(STALLOC_FIELD)
#undef STALLOC_FIELD

	explicit Library(const char *path) {
		void *handle = dlopen(path, RTLD_NOW);
		if (!handle) throw std::runtime_error(dlerror());
#define STALLOC_FIND(name)                                                               \
	if (!(name = reinterpret_cast<decltype(name)>(dlsym(handle, "stalloc_" #name)))) \
		throw std::runtime_error(std::string(path) + " does not export stalloc_" #name);
		STALLOC_USED(STALLOC_FIND)
#undef STALLOC_FIND
	}

	stalloc_stats stats(int device) const {
		stalloc_stats s = {};
		get_stats(device, &s, sizeof s);
		return s;
	}
	// The live blocks of a device and all pieces of private pools by address, and the meters as
	// of the same moment.
	std::vector<stalloc_block> pieces(int device, stalloc_meters *meters) const {
		std::vector<stalloc_block> all;
		size_t n = 0;
		while ((n = snapshot(device, meters, all.data(), all.size())) > all.size())
			all.resize(n + n / 8);
		all.resize(n);
		std::sort(all.begin(), all.end(),
			  [](const auto &x, const auto &y) { return x.ptr < y.ptr; });
		return all;
	}
	// What the private pools of a device hold.
	std::vector<std::array<uint64_t, 3>> pools(int device) const {
		std::vector<std::array<uint64_t, 3>> all;
		size_t n = 0;
		auto room = [&] { return reinterpret_cast<uint64_t(*)[3]>(all.data()); };
		while ((n = pools_held(device, room(), all.size())) > all.size()) all.resize(n);
		all.resize(n);
		return all;
	}
	// The live blocks of a device, or of one of its private pools.
	std::vector<stalloc_block> blocks(int device, const uint64_t *pool = nullptr) const {
		stalloc_meters now;
		std::vector<stalloc_block> all = pieces(device, &now);
		auto other = [&](const stalloc_block &b) {
			return b.state != STALLOC_LIVE ||
			       (pool && !std::equal(pool, pool + 2, b.pool));
		};
		all.erase(std::remove_if(all.begin(), all.end(), other), all.end());
		return all;
	}
};

} // namespace stalloc
#endif
