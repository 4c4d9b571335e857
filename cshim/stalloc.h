/* stalloc: a GPU memory allocator.
 *
 * A stream's memory is one contiguous address range. A request gets the smallest gap that fits;
 * if none fits, free physical memory is stitched together behind new addresses. stalloc also
 * watches the steps of a training run: once a step repeats, request for request, later ones are
 * served from a plan, without a search and without driver calls. This header is the interface of
 * libstalloc.so, for PyTorch's pluggable allocator and for runtimes that embed it; stalloc_torch.h
 * has what PyTorch's adapter needs besides, stalloc_solve.h plans without a GPU.
 *
 * Every function may be called from any thread, with or without a current CUDA context, and takes
 * no lock of the caller's language (never the GIL). Sizes are bytes. `device` is a CUDA ordinal.
 * `stream` is a CUstream, NULL for the default stream. In a forked child allocation returns NULL
 * and everything else does nothing: CUDA does not survive a fork.
 *
 * A freed block may be reused at once by later requests on its own stream, and by no other
 * stream. So the caller frees a block only after submitting all work that uses it to that stream,
 * or first names the other streams with stalloc_record_stream; these must exist until the block
 * is freed. PyTorch has the same rules. A stream may be destroyed while it has memory, which then
 * serves other streams or goes back to the driver. Not while a private pool is being allocated
 * to, since a stream may be captured into a graph: then a request that is short of memory can get
 * only the idle memory of streams that are never destroyed (stalloc_lasting_stream).
 */
#ifndef STALLOC_H
#define STALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "stalloc_solve.h"

#ifdef __cplusplus
extern "C" {
#endif

#define STALLOC_VERSION "0.2.0" /* written by make, from the file VERSION */
#define STALLOC_API __attribute__((visibility("default")))

/* Errors, negative. stalloc_last_error() has the text. */
enum {
	STALLOC_OK = 0,
	STALLOC_ERR_CONF = -1,     /* a mistake in STALLOC_CONF: nothing is allocated */
	STALLOC_ERR_ENGINE = -2,   /* the engine library cannot be used */
	STALLOC_ERR_DRIVER = -3,   /* no CUDA driver, or a driver call failed */
	STALLOC_ERR_MEMORY = -4,   /* the device has no memory left */
	STALLOC_ERR_ARGUMENT = -5, /* a device out of range, an unknown address, ... */
	STALLOC_ERR_PLAN = -6,     /* no plan to save, or it cannot be written, read or used */
	STALLOC_ERR_ASLEEP = -7    /* this memory sleeps: call stalloc_resume */
};

/* Reads STALLOC_CONF (comma-separated key:value) and prepares the fork guard. Optional: the first
 * allocation does it, and opens the engine. Returns STALLOC_OK or STALLOC_ERR_CONF. */
STALLOC_API int stalloc_init(void);

/* Checks a text as a value of STALLOC_CONF, and changes nothing. Returns STALLOC_OK or
 * STALLOC_ERR_CONF; stalloc_last_error lists every mistake. */
STALLOC_API int stalloc_check_conf(const char *conf);

/* The text of this thread's last error, never NULL. */
STALLOC_API const char *stalloc_last_error(void);
/* "major.minor.patch". */
STALLOC_API const char *stalloc_version(void);

/* Allocates a block of at least `size` bytes, aligned to 512. NULL: `size` is 0, or memory ran
 * out even after all idle memory was released (stalloc_last_error explains; if a thrower is set it
 * is called instead of returning). */
STALLOC_API void *stalloc_malloc(size_t size, int device, void *stream);

/* Frees a block by its address. `size` is ignored: some callers pass a stale one. `stream` should
 * be the block's own; it only affects the order in which frees are observed. An address that is
 * not a live block is logged once and ignored. Another thread may perform the free shortly after
 * this call returned. Never free a block twice: by then another block may begin at its address,
 * which is freed instead. */
STALLOC_API void stalloc_free(void *ptr, size_t size, int device, void *stream);

/* Another stream uses the block: once freed, it is reused only after that stream's work. */
STALLOC_API void stalloc_record_stream(void *ptr, void *stream);

/* Says that a stream is never destroyed, as PyTorch's pool streams are not, so its free memory may
 * be lent to other streams once its work is done. The default stream needs no call. */
STALLOC_API void stalloc_lasting_stream(int device, void *stream);

/* The start of the block that contains ptr and, if size is not NULL, its size in bytes; NULL if no
 * live block contains it. */
STALLOC_API void *stalloc_base(void *ptr, size_t *size);

/* Releases idle physical memory to the driver, on every device. */
STALLOC_API void stalloc_empty_cache(void);

/* Limits what stalloc reserves to a fraction of the device's memory: from 0 (no more memory is
 * taken) to 1 (only STALLOC_CONF's limit holds). Returns STALLOC_OK or an error, which is also
 * logged once. */
STALLOC_API int stalloc_set_memory_fraction(double fraction, int device);

/* PyTorch calls it with the number of devices. It does nothing. */
STALLOC_API void stalloc_set_device_count(int count);

/* Private pools (CUDA graphs, torch.cuda.MemPool). Between begin and end, requests on streams that
 * the filter accepts get memory that is shared with nothing outside the pool; of nested pools the
 * innermost that accepts a stream serves it. id0 and id1 are PyTorch's MempoolId_t; filter points
 * to a libstdc++ std::function<bool(cudaStream_t)>, NULL for every stream. A release ends the use
 * of the pool that one begin has begun, after its end: with the last the pool's memory goes back.
 * Once a request of a pool is made on a stream that is being captured, the addresses of the pool
 * and the memory there stay until then. */
STALLOC_API void stalloc_begin_pool(int device, uint64_t id0, uint64_t id1, void *filter);
STALLOC_API void stalloc_end_pool(int device, uint64_t id0, uint64_t id1);
STALLOC_API void stalloc_release_pool(int device, uint64_t id0, uint64_t id1);

/* A region: what this thread allocates between begin and end, outside of private pools, has memory
 * of its own, which can be paused separately. Regions of one name are one region on each device.
 * They nest, up to 16 deep. Both return STALLOC_OK or an error: no name, nested too deep, no region
 * to end. */
STALLOC_API int stalloc_begin_region(const char *tag);
STALLOC_API int stalloc_end_region(void);

/* Pauses memory on one device or (-1) on all: the regions named by n tags or, if n is 0, everything
 * but private pools, which graphs use. Waits for all work on the device, then releases the physical
 * memory to the driver and keeps every address. STALLOC_BACKUP_HOST first copies live blocks to the
 * host, after checking that the host has room; STALLOC_BACKUP_DISCARD loses their contents. No work
 * may use paused blocks until they are resumed; stalloc cannot see kernel launches and does not
 * check. A request for paused memory fails with STALLOC_ERR_ASLEEP; frees work. Refused while a
 * private pool is being allocated to, since a stream may be captured. Returns STALLOC_OK or an
 * error, and then the device that failed is unchanged unless the text says that it sleeps. For all
 * devices: closed ones are left out, and if one fails the others are paused all the same; the text
 * says of each whether it sleeps. */
enum { STALLOC_BACKUP_HOST, STALLOC_BACKUP_DISCARD };
STALLOC_API int stalloc_pause(int device, const char *const *tags, size_t n, int backup);

/* Resumes paused memory, of n tags or (n = 0) all, at the addresses it had. Returns STALLOC_OK or
 * an error such as STALLOC_ERR_MEMORY, and then the memory of the device that failed stays paused
 * and nothing is lost. The other devices are resumed all the same; the text says of each whether it
 * sleeps. */
STALLOC_API int stalloc_resume(int device, const char *const *tags, size_t n);

/* Lends the memory of a region while the program does not use it. Between begin and end work on any
 * stream may use the region. end names the stream of the last such work. After it, as much of the
 * region as other requests need is copied to the host, on a separate stream, and its memory serves
 * them. The program must not touch the region then, and requests in it fail. begin brings back what
 * is away: the given stream waits for the copies, the caller only for memory. The program has work
 * of other streams on older blocks of the region wait for the given stream. A block that is
 * allocated later needs nothing: its stream waits for the copies by itself.
 * `how` is a sum of
 *   STALLOC_CHANGED      the work wrote to the region; without it the copy on the host is still
 *                        valid, and nothing is copied out again
 *   STALLOC_ALL_LEAVES   all of the region leaves, even if memory is not short
 *   STALLOC_MORE_FOLLOW  other regions are closed next, one after the other: until the last is
 *                        closed no more leaves than those need that are away
 * prefetch starts to bring back as much as fits. Host memory is pinned and kept. A region that was
 * never ended is in use. Uses nest: each begin needs an end. Each function returns STALLOC_OK or an
 * error such as STALLOC_ERR_MEMORY, and then nothing is lost: the region is in use, or not, as
 * before; an end that fails is one all the same. While a private pool is being allocated to, begin
 * is refused if something is away, still being copied back, or used by earlier work, end leaves
 * the region in use, and a request in a region that is still being copied back fails. */
enum { STALLOC_CHANGED = 1, STALLOC_ALL_LEAVES = 2, STALLOC_MORE_FOLLOW = 4 };
STALLOC_API int stalloc_begin_awake(int device, const char *tag, void *stream);
STALLOC_API int stalloc_end_awake(int device, const char *tag, void *stream, int how);
STALLOC_API int stalloc_prefetch(int device, const char *tag);

/* Says that a training step ends here, on one device or (-1) on all. New plans become active only
 * here. Returns STALLOC_OK or an error. */
STALLOC_API int stalloc_step(int device);

/* Closes one device or (-1) all, for good. Memory without live blocks goes back to the driver,
 * except that of private pools that are not released; the steps observed so far are evaluated, so
 * that a plan can still be saved. Live blocks stay valid, and stalloc_free frees them as before.
 * Later requests are served by plain driver allocations, and a line on standard error says so once.
 * Waits for streams, and for a plan that is being made. A second call only retries what the driver
 * refused. Returns STALLOC_OK or an error. */
STALLOC_API int stalloc_close(int device);

/* Writes the device's latest plan to a file, for a later run. The file is replaced atomically:
 * readers and crashes see the old file or the new one, never a part. */
STALLOC_API int stalloc_save_plan(int device, const char *path);

/* Reads a saved plan: the steps that repeated in an earlier run. They are planned again as soon as
 * this run has the memory. Call it before the device's first request. Steps that do not occur in
 * this run only cost a comparison. */
STALLOC_API int stalloc_load_plan(int device, const char *path);

/* Bytes unless said otherwise. New fields are appended only. */
struct stalloc_stats {
	uint64_t requests; /* allocations */
	uint64_t hits;     /* served at their planned offsets */
	uint64_t misses;   /* served elsewhere although there was a plan */
	uint64_t steps;
	uint64_t plan_generation;            /* plans activated so far */
	uint64_t allocated, peak_allocated;  /* live blocks, rounded to 512 */
	uint64_t requested, peak_requested;  /* as asked for */
	uint64_t active, peak_active;        /* live or waiting for other streams */
	uint64_t reserved, peak_reserved;    /* physical memory taken from the driver */
	uint64_t allocated_total, freed_total;
	uint64_t blocks, peak_blocks, blocks_total; /* live blocks, count */
	uint64_t driver_calls, driver_ns;           /* made by the engine */
	uint64_t ooms, retries;
	uint64_t lost_events; /* not observed: over 2^20 in a step, or steps too short to see */
	uint64_t fallback;    /* requests that plain driver allocations served, see explain */
	/* What PyTorch's own allocator would have needed for the same requests, estimated by a
	 * simulation: its peak reserved memory (0: unknown), the steps that were simulated, and 1
	 * if the device would have been full after them. */
	uint64_t native_peak_reserved, native_steps, native_ooms;
	/* Paused or lent memory, and the host memory kept for it and for the next pause. */
	uint64_t asleep, backup;
	uint64_t waits, wait_ns; /* requests that waited for other streams to avoid new memory */
	uint64_t lent;		 /* of asleep, what no pause has released */
};

/* Copies min(size, sizeof(struct stalloc_stats)) bytes. */
STALLOC_API int stalloc_get_stats(int device, struct stalloc_stats *out, size_t size);

/* Resets peaks to the current values. */
STALLOC_API int stalloc_reset_peak(int device);

/* Writes a text that says how the device's memory is used; returns its length without the final
 * NUL, as snprintf does. */
STALLOC_API int stalloc_explain(int device, char *text, size_t length);

/* Shares memory with another process without a copy, under STALLOC_CONF=share:fd or share:fabric.
 *
 * stalloc_export_block writes a token (a text) for the live block that contains ptr, and the offset
 * of ptr in the memory that the token maps. Until the block is freed, its memory cannot be paused.
 * Returns the token's length without the final NUL, and writes nothing if that is not less than
 * length; or an error. With share:fd the importer is a process of this host. From then on programs
 * of the same user may debug this process (PR_SET_PTRACER), because copying its file descriptors
 * needs that right. With share:fabric the importer may be on any host of the fabric.
 *
 * stalloc_import_block maps the memory of a token on a device, which must be the exporter's GPU;
 * NULL: stalloc_last_error says why not. stalloc_end_import unmaps it, once no work uses it. The
 * mapping stays valid whatever happens to the exporter, but the exporter must keep the block: once
 * it is freed, another block may be written to the same bytes. */
STALLOC_API long stalloc_export_block(const void *ptr, size_t *offset, char *token, size_t length);
STALLOC_API void *stalloc_import_block(const char *token, int device);
STALLOC_API int stalloc_end_import(void *ptr);

/* A callback for changes of device memory, for registering it with a network: size bytes at an
 * address were mapped, as one driver allocation; can be used from now on; or are about to be
 * unmapped. The last two may cover several adjacent mappings. The same memory may be mapped at two
 * addresses. If the driver then refuses to unmap, no further call says so. The callback runs under
 * stalloc's locks: it must not call stalloc, and must not throw. */
enum { STALLOC_MAPPED, STALLOC_USABLE, STALLOC_UNMAPPED };
typedef void (*stalloc_tracker)(int device, void *at, size_t size, int change);

/* Sets the callback for all later changes; NULL: none. */
STALLOC_API void stalloc_set_tracker(stalloc_tracker tracker);

/* Called when memory runs out. It may throw a C++ exception through stalloc_malloc, which is
 * compiled to let it pass; if it returns, stalloc_malloc returns NULL. */
typedef void (*stalloc_thrower)(const char *function, const char *file, uint32_t line,
				const char *message);
STALLOC_API void stalloc_set_thrower(stalloc_thrower thrower);

#ifdef __cplusplus
}
#endif
#endif
