// libstalloc.so, opened where the Python package found it: the adapter is compiled on
// another machine or day than the library, so nothing is linked.
#ifndef STALLOC_TORCH_LIBRARY_H
#define STALLOC_TORCH_LIBRARY_H

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "stalloc.h"

namespace stalloc {

#define STALLOC_USED(X)                                                                                       \
	X(malloc) X(free) X(record_stream) X(empty_cache) X(set_memory_fraction) X(get_stats) X(reset_peak) X(last_error)

struct Library {
#define STALLOC_FIELD(name) decltype(&stalloc_##name) name = nullptr;
	STALLOC_USED(STALLOC_FIELD)
#undef STALLOC_FIELD

	explicit Library(const char *path) {
		void *handle = dlopen(path, RTLD_NOW);
		if (!handle) throw std::runtime_error(dlerror());
#define STALLOC_FIND(name)                                                                                    \
	if (!(name = reinterpret_cast<decltype(name)>(dlsym(handle, "stalloc_" #name))))                      \
		throw std::runtime_error(std::string(path) + " does not export stalloc_" #name);
		STALLOC_USED(STALLOC_FIND)
#undef STALLOC_FIND
	}

	stalloc_stats stats(int device) const {
		stalloc_stats s = {};
		get_stats(device, &s, sizeof s);
		return s;
	}
};

} // namespace stalloc
#endif
