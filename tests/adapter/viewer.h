// A memory snapshot as PyTorch's viewer goes back through it, one event after another.
#ifndef STALLOC_TEST_VIEWER_H
#define STALLOC_TEST_VIEWER_H

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>

#define CHECK(condition)                                                                       \
	do {                                                                                   \
		if (!(condition)) {                                                            \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);        \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

// What PyTorch's viewer draws when one goes back through a history: segments, and in them blocks.
struct View {
	struct Segment {
		size_t size;
		void *stream;
	};
	std::map<size_t, Segment> segments;
	std::map<size_t, size_t> blocks; // their sizes

	auto around(size_t at) {
		auto next = segments.upper_bound(at);
		CHECK(next != segments.begin());
		return std::prev(next);
	}
	void map(size_t at, size_t size, void *stream) {
		auto next = segments.lower_bound(at);
		CHECK(next == segments.end() || next->first >= at + size);
		if (next != segments.end() && next->first == at + size &&
		    next->second.stream == stream) {
			size += next->second.size;
			segments.erase(next);
		}
		segments[at] = {size, stream};
		auto here = segments.find(at);
		if (here == segments.begin()) return;
		auto before = std::prev(here);
		CHECK(before->first + before->second.size <= at);
		if (before->first + before->second.size != at || before->second.stream != stream)
			return;
		before->second.size += size;
		segments.erase(here);
	}
	void unmap(size_t at, size_t size, void *stream) {
		auto [from, old] = *around(at);
		CHECK(from <= at && at + size <= from + old.size && old.stream == stream);
		segments.erase(from);
		if (from < at) segments[from] = {at - from, stream};
		if (at + size < from + old.size)
			segments[at + size] = {from + old.size - at - size, stream};
	}
	void back(const c10::cuda::CUDACachingAllocator::TraceEntry &e) {
		using A = c10::cuda::CUDACachingAllocator::TraceEntry;
		if (e.action_ == A::SEGMENT_UNMAP) map(e.addr_, e.size_, e.stream_);
		if (e.action_ == A::SEGMENT_MAP) unmap(e.addr_, e.size_, e.stream_);
		if (e.action_ == A::FREE_COMPLETED) blocks[e.addr_] = e.size_;
		if (e.action_ == A::ALLOC) CHECK(blocks.erase(e.addr_));
	}
	size_t check() {
		size_t sum = 0;
		for (const auto &[at, size] : blocks) {
			auto [from, segment] = *around(at);
			CHECK(at + size <= from + segment.size);
		}
		for (const auto &[at, segment] : segments) sum += segment.size;
		return sum;
	}
};

#endif
