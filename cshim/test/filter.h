/* The filter of a private pool that takes one stream, in the layout of a
 * std::function<bool(cudaStream_t)>, as PyTorch passes it. */
#ifndef FILTER_H
#define FILTER_H

#include <stdbool.h>

struct filter {
	union functor {
		void *stream;
		char bytes[16];
	} functor;
	bool (*manager)(union functor *to, const union functor *from, int operation);
	bool (*invoker)(const union functor *functor, void **stream);
};

static bool copy(union functor *to, const union functor *from, int operation)
{
	if (operation == 2) *to = *from;
	return false;
}

static bool same(const union functor *functor, void **stream) { return functor->stream == *stream; }

#endif
