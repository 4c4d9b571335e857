// Calls stalloc_malloc the way PyTorch's C++ does and reports what it threw.
#include <cstdio>
#include <exception>

#include "stalloc.h"

extern "C" STALLOC_API int catch_malloc(void *(*alloc)(size_t, int, void *), size_t size, char *out,
                                        size_t length)
{
	try {
		alloc(size, 0, nullptr);
		return 0;
	} catch (const std::exception &error) {
		std::snprintf(out, length, "%s", error.what());
		return 1;
	}
}
