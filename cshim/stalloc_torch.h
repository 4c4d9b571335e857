/* What PyTorch's adapter asks of libstalloc.so beside stalloc.h, and what `stalloc record` does. */
#ifndef STALLOC_TORCH_H
#define STALLOC_TORCH_H

#include "stalloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the pool that was begun last is for: a graph that is captured on a stream (graph = 1), or a
 * program's MemPool (0), beside which memory is managed as elsewhere. If nobody says, a stream may
 * be captured until the pool's end. PyTorch may neither end nor release the pool of a capture that
 * failed: both is done when the thread that began it begins another pool, empties the cache, ends a
 * step or is short of memory. */
STALLOC_API void stalloc_pool_purpose(int device, uint64_t id0, uint64_t id1, void *stream,
				      int graph);
/* Adds a use of a pool, which a release ends; returns how many uses a pool has. */
STALLOC_API void stalloc_retain_pool(int device, uint64_t id0, uint64_t id1);
STALLOC_API int stalloc_pool_uses(int device, uint64_t id0, uint64_t id1);
/* Gives back what is idle of a pool that no graph uses, and of others like it. */
STALLOC_API void stalloc_empty_pool(int device, uint64_t id0, uint64_t id1);
/* From now on the addresses of a pool and the memory there stay until it is released. */
STALLOC_API void stalloc_capture_pool(int device, uint64_t id0, uint64_t id1);
/* Allocates a block at an address where one of the same pool and stream was; pool: its two ids, or
 * NULL for the one that serves the stream now. Returns STALLOC_OK or an error. */
STALLOC_API int stalloc_malloc_at(void *ptr, size_t size, int device, void *stream,
				  const uint64_t *pool);
/* How many private pools are being allocated to where a stream may be captured into a graph. */
STALLOC_API int stalloc_captures(int device);
/* Whether private pools can be served: not by plain driver allocations, and not by GMLake. */
STALLOC_API int stalloc_serves_pools(int device);

/* A live block, or a piece of a private pool's memory that is pending (freed, and other streams
 * still use it) or idle. */
enum { STALLOC_LIVE, STALLOC_PENDING, STALLOC_IDLE };
struct stalloc_block {
	void *ptr, *stream; /* stream is NULL where a plain driver allocation serves */
	size_t asked;
	int device, state;
	uint64_t pool[2]; /* ids of the private pool; 0: none */
};

/* Finds the live block that begins at ptr. Returns STALLOC_OK, or an error if there is none. */
STALLOC_API int stalloc_find(void *ptr, struct stalloc_block *out);
/* Frees ptr as stalloc_free does; returns an error if it is not stalloc's. */
STALLOC_API int stalloc_release(void *ptr);

/* A quantity now and summed over the run; and the peak of its sum with other: what another
 * allocator (PyTorch's own, beside the adapter) holds at the same time. beside is other's name up
 * to 0.2. */
struct stalloc_meter {
	int64_t current, total, peak;
	union {
		int64_t other, beside;
	};
};
/* Small: up to 1 MiB, rounded. */
enum { STALLOC_POOL_ALL, STALLOC_POOL_SMALL, STALLOC_POOL_LARGE, STALLOC_POOLS };
enum { STALLOC_BLOCKS, STALLOC_ALLOCATED, STALLOC_REQUESTED, STALLOC_METERS };
struct stalloc_meters {
	struct stalloc_meter of[STALLOC_POOLS][STALLOC_METERS];
};

/* Copies the meters and at most n of the live blocks and of all pieces of private pools, all as of
 * one moment; returns how many there are. Under pool:gmlake no blocks are listed. */
STALLOC_API size_t stalloc_snapshot(int device, struct stalloc_meters *out,
				    struct stalloc_block *blocks, size_t n);
/* Writes the ids of at most `room` private pools of a device, and how many bytes each holds;
 * returns how many there are. */
STALLOC_API size_t stalloc_pools_held(int device, uint64_t (*pools)[3], size_t room);

/* Sets what the other allocator holds now, and its peak so far; with reset all peaks start again.
 * While the other allocator holds memory, a new peak of stalloc's is entered only by this call;
 * stalloc_stale says whether one waits. stalloc_set_beside is its name up to 0.2. */
STALLOC_API void stalloc_set_other(int device, const struct stalloc_meters *now, int reset);
STALLOC_API void stalloc_set_beside(int device, const struct stalloc_meters *now, int reset);
STALLOC_API int stalloc_stale(int device);

/* For `stalloc record`: allocates a block of so many bytes from another allocator and frees it,
 * every `micros` microseconds until *stop is not 0. Both functions return 0 on success, as
 * PyTorch's aoti_torch_cuda_caching_allocator_raw_alloc and _delete do. Returns STALLOC_OK, or
 * STALLOC_ERR_MEMORY once one of them fails. */
typedef int (*stalloc_ask)(uint64_t bytes, void **block);
typedef int (*stalloc_give_back)(void *block);
STALLOC_API int stalloc_poll(stalloc_ask ask, stalloc_give_back give_back, uint64_t bytes,
			     uint32_t micros, const int *stop);

#ifdef __cplusplus
}
#endif
#endif
