/* Put before libstalloc.so, this makes it hand out one block twice: the hundredth
 * request gets the block of the one before it on the same thread, if it fits. */
#include <dlfcn.h>
#include <stddef.h>

void *stalloc_malloc(size_t size, int device, void *stream) {
	static void *(*real)(size_t, int, void *);
	static __thread void *last;
	static __thread size_t last_size;
	static __thread int requests;
	if (!real) *(void **)&real = dlsym(RTLD_NEXT, "stalloc_malloc");
	if (++requests >= 100 && last && size <= last_size) {
		void *twice = last;
		last = NULL;
		return twice;
	}
	last = real(size, device, stream);
	last_size = size;
	return last;
}
