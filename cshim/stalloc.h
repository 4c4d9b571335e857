/* stalloc: a GPU memory allocator that plans.
 *
 * It watches the steps of a training run. Once one came again, request for request, it
 * plans where every block of the next goes, and serves it there; what does not repeat goes
 * where it fits, and free memory is stitched for what fits nowhere. This header is the whole interface of libstalloc.so for
 * PyTorch's pluggable allocator and for runtimes that embed it.
 *
 * Every function may be called from any thread, with or without a CUDA context
 * current, and takes no lock of the caller's language (never the GIL). Sizes
 * are bytes. `device` is a CUDA ordinal. `stream` is a CUstream, NULL for the
 * default stream. In a forked child allocation returns NULL and everything else
 * does nothing: CUDA does not survive a fork.
 *
 * A block is reused at once by later requests on its own stream and by no other
 * stream, so the caller frees a block only when all work that uses it has been
 * submitted to that stream, or names the other streams with
 * stalloc_record_stream first: those have to be there until it is freed. These are
 * PyTorch's own rules. A stream may be destroyed with memory in it, which then serves
 * others or goes back; while a private pool is being allocated to, nothing of that is
 * done, since a stream may be captured into a graph: a request that lacks memory has
 * only what streams that last (stalloc_lasting_stream) hold idle.
 */
#ifndef STALLOC_H
#define STALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STALLOC_VERSION "0.2.0" /* written by make, from the file VERSION */
#define STALLOC_API __attribute__((visibility("default")))

/* Errors, negative. stalloc_last_error() has the text. */
enum {
	STALLOC_OK = 0,
	STALLOC_ERR_CONF = -1,    /* STALLOC_CONF has an unknown key or a wrong value: nothing is allocated */
	STALLOC_ERR_ENGINE = -2,  /* the engine library cannot be used */
	STALLOC_ERR_DRIVER = -3,  /* no CUDA driver, or a driver call failed */
	STALLOC_ERR_MEMORY = -4,  /* the device has no memory left */
	STALLOC_ERR_ARGUMENT = -5, /* a device out of range, an unknown address, ... */
	STALLOC_ERR_PLAN = -6,	   /* there is no plan to save yet, or it cannot be written, read or served */
	STALLOC_ERR_ASLEEP = -7	   /* this memory sleeps: call stalloc_resume */
};

/* Reads STALLOC_CONF (comma-separated key:value) and prepares the fork guard.
 * Optional: the first allocation does it. The engine is opened by the first
 * allocation, never here. Returns STALLOC_OK or STALLOC_ERR_CONF: some setting is
 * wrong, and nothing is allocated in this process. */
STALLOC_API int stalloc_init(void);

/* Looks whether a text could be STALLOC_CONF, and changes nothing. Returns STALLOC_OK
 * or STALLOC_ERR_CONF; stalloc_last_error has all that is wrong. */
STALLOC_API int stalloc_check_conf(const char *conf);

/* The text of this thread's last error, never NULL. */
STALLOC_API const char *stalloc_last_error(void);

/* "major.minor.patch". */
STALLOC_API const char *stalloc_version(void);

/* A block of at least `size` bytes, aligned to 512, or NULL: `size` is 0, or
 * nothing is left after everything idle was given back (stalloc_last_error
 * explains; if a thrower is set it is called instead of returning). */
STALLOC_API void *stalloc_malloc(size_t size, int device, void *stream);

/* Frees a block by its address. `size` is ignored: callers exist that pass a
 * stale one. `stream` should be the block's own; it only orders observation.
 * An address that is not a live block is logged once and ignored. Another thread may perform
 * a free shortly after it returned: a second free of a block is a fault of the program all the
 * same, since a block that begins there by then is freed. */
STALLOC_API void stalloc_free(void *ptr, size_t size, int device, void *stream);

/* Another stream uses the block: when freed, it waits for that stream's work. */
STALLOC_API void stalloc_record_stream(void *ptr, void *stream);

/* The stream lasts as long as the program, as those of PyTorch's pools do: free memory of it may serve
 * other streams, once the driver says that its work is done. The default stream does so without a word. */
STALLOC_API void stalloc_lasting_stream(int device, void *stream);

/* The start of the block that contains ptr and, if size is not NULL, its size
 * in bytes; NULL if there is none. */
STALLOC_API void *stalloc_base(void *ptr, size_t *size);

/* Gives idle physical memory back to the driver, on every device. */
STALLOC_API void stalloc_empty_cache(void);

/* Limits what stalloc reserves to a fraction of the device's memory, from 0, where
 * nothing more is taken, to 1, where STALLOC_CONF's limit alone holds. Returns
 * STALLOC_OK or an error, which is logged once, too. */
STALLOC_API int stalloc_set_memory_fraction(double fraction, int device);

/* PyTorch calls it with the number of devices; nothing depends on it. */
STALLOC_API void stalloc_set_device_count(int count);

/* Private pools (CUDA graphs, torch.cuda.MemPool). Between begin and end,
 * requests on streams that the filter accepts get memory that nothing outside
 * the pool shares. id0 and id1 are PyTorch's MempoolId_t; filter points to a
 * libstdc++ std::function<bool(cudaStream_t)>, NULL for every stream. */
STALLOC_API void stalloc_begin_pool(int device, uint64_t id0, uint64_t id1, void *filter);
STALLOC_API void stalloc_end_pool(int device, uint64_t id0, uint64_t id1);
STALLOC_API void stalloc_release_pool(int device, uint64_t id0, uint64_t id1);

/* A region: what this thread asks for between begin and end, outside of private pools, has memory that
 * sleeps for itself. Regions of a name are one region, on each device. They nest, up to 16 deep.
 * Return STALLOC_OK or an error: no name, too deep, none to end. */
STALLOC_API int stalloc_begin_region(const char *tag);
STALLOC_API int stalloc_end_region(void);

/* Has memory sleep on one device or (-1) on all: the regions of n tags, or with n 0 everything but
 * private pools, which graphs use. Waits for all work on the device, then gives the memory back to the
 * driver and keeps every address. STALLOC_BACKUP_HOST copies live blocks to the host first, whose memory
 * is looked at before; STALLOC_BACKUP_DISCARD loses what they hold. No work may use them until they are
 * resumed: nobody can see launches. A request of what sleeps has STALLOC_ERR_ASLEEP; frees are taken in.
 * Returns STALLOC_OK or an error, and nothing has changed then on the device that failed, unless the text
 * says that it sleeps. Of all devices those that are closed are left out; where one fails the others sleep
 * all the same, and the text says of each whether it does. Refused while a private pool is being
 * allocated to: a stream may be captured. */
enum { STALLOC_BACKUP_HOST, STALLOC_BACKUP_DISCARD };
STALLOC_API int stalloc_pause(int device, const char *const *tags, size_t n, int backup);

/* Wakes what sleeps, of n tags or with n 0 all, at the addresses that it had. Returns STALLOC_OK or an
 * error, such as STALLOC_ERR_MEMORY, and what slept on a device that failed sleeps on: nothing is lost. Of
 * several devices the others wake all the same, and the text says of each whether it sleeps. */
STALLOC_API int stalloc_resume(int device, const char *const *tags, size_t n);

/* A training step ends here, on one device or (-1) on all. New plans become
 * active here and nowhere else. Returns STALLOC_OK or an error. */
STALLOC_API int stalloc_step(int device);

/* Ends serving on one device or (-1) on all: what was observed is looked at, for
 * the plan that may be saved, and all memory without live blocks goes back to the driver, but for
 * that of private pools which are not released. Live blocks stay
 * valid; each is freed by stalloc_free as ever, and its memory given back soon. Later
 * requests are served, by plain driver allocations, and a line on standard error says so
 * once. There is no way back in this process. Waits for a plan in the making and for
 * streams. Once more only tries again what the driver refused. Returns STALLOC_OK or an error. */
STALLOC_API int stalloc_close(int device);

/* Writes the device's latest plan to a file, for a later run. A reader, or a
 * crash, meets the old file or the new one, never a part. */
STALLOC_API int stalloc_save_plan(int device, const char *path);

/* Reads a saved plan, the steps that came again in an earlier run: they are planned anew as
 * soon as this run has the memory. Call it before the device's first request. Steps that this run does not make cost a look. */
STALLOC_API int stalloc_load_plan(int device, const char *path);

/* Bytes unless said otherwise. New fields are appended only. */
struct stalloc_stats {
	uint64_t requests; /* allocations asked for */
	uint64_t hits;     /* served at their planned offsets */
	uint64_t misses;   /* made while there was a plan, served elsewhere */
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
	uint64_t lost_events;            /* not observed: more than 2^20 of a stream in a step, or in steps too fast to look at */
	uint64_t fallback; /* requests served by plain driver allocations: the engine could not, see stalloc_explain */
	/* What PyTorch's own allocator would have come to with the same requests, estimated by a
	 * simulation beside the program: its peak of reserved memory, 0 where that cannot be told,
	 * the steps that were simulated, and 1 if the device would have been full behind them. */
	uint64_t native_peak_reserved, native_steps, native_ooms;
	uint64_t asleep, backup; /* memory that stalloc_pause gave back, and what the host keeps of it */
	uint64_t waits, wait_ns; /* requests that waited for other streams rather than have memory made */
};

/* Copies min(size, sizeof(struct stalloc_stats)) bytes. */
STALLOC_API int stalloc_get_stats(int device, struct stalloc_stats *out, size_t size);

/* Peaks start again from the current values. */
STALLOC_API int stalloc_reset_peak(int device);

/* Writes a text that says where the device's memory is; returns its length
 * without the final NUL, as snprintf does. */
STALLOC_API int stalloc_explain(int device, char *text, size_t length);

/* Memory for another process of this host, where it lies: with STALLOC_CONF=share:fd.
 *
 * stalloc_export_block writes a token, a text, for the live block that contains ptr, and where ptr lies in what is
 * mapped for it. Until the block is freed, its memory stays awake. Returns the token's length without the
 * final NUL, and if that is not less than length nothing is written; or an error. With share:fd the importer is a
 * process of this host, and programs of the same user may debug this one from then on (PR_SET_PTRACER), since that
 * is what taking its file descriptors takes. With share:fabric it may be on any host of the fabric.
 *
 * stalloc_import_block maps what a token names for a device, the exporter's of the same GPU; NULL: the text of the last error says
 * why not. stalloc_end_import unmaps it, when no work uses it any more. What is imported keeps its memory
 * whatever becomes of the exporter, but the exporter is to keep the block, or its bytes will be another's. */
STALLOC_API long stalloc_export_block(const void *ptr, size_t *offset, char *token, size_t length);
STALLOC_API void *stalloc_import_block(const char *token, int device);
STALLOC_API int stalloc_end_import(void *ptr);

/* Is told what becomes of device memory: size bytes at an address are mapped, as one allocation of the
 * driver and at an address of their own; can be used from now on; and are about to be unmapped. The latter
 * two may be of several that lie together. The same memory may be mapped at two addresses. What the driver
 * then refuses to unmap is told no more. For whoever registers memory with a network. It is called under
 * stalloc's locks: it must call nothing of stalloc, and must not throw. */
enum { STALLOC_MAPPED, STALLOC_USABLE, STALLOC_UNMAPPED };
typedef void (*stalloc_tracker)(int device, void *at, size_t size, int change);

/* Has a tracker told of what is mapped from now on; NULL: nobody. */
STALLOC_API void stalloc_set_tracker(stalloc_tracker tracker);

/* What PyTorch asks about live blocks, for its adapter. */
struct stalloc_block {
	void *ptr, *stream; /* stream is NULL where a plain driver allocation serves */
	size_t asked;
	int device;
};

/* Finds the live block that begins at ptr. Returns STALLOC_OK or an error: there is none. */
STALLOC_API int stalloc_find(void *ptr, struct stalloc_block *out);

/* Frees ptr, as stalloc_free does, if it is ours at all; else returns an error. */
STALLOC_API int stalloc_release(void *ptr);

/* How much there is now, and was ever; and the peak of what there is together with what another
 * allocator has beside. */
struct stalloc_meter {
	int64_t current, total, peak, beside;
};
enum { STALLOC_POOL_ALL, STALLOC_POOL_SMALL, STALLOC_POOL_LARGE, STALLOC_POOLS }; /* small: up to 1 MiB, rounded */
enum { STALLOC_BLOCKS, STALLOC_ALLOCATED, STALLOC_REQUESTED, STALLOC_METERS };
struct stalloc_meters {
	struct stalloc_meter of[STALLOC_POOLS][STALLOC_METERS];
};

/* Copies what is metered, and at most n of the live blocks, all as of one moment; returns how
 * many blocks there are. Under pool:gmlake none are told. */
STALLOC_API size_t stalloc_snapshot(int device, struct stalloc_meters *out, struct stalloc_block *blocks, size_t n);

/* Tells what is beside now, and a peak that there was; with reset peaks start again. While something
 * is beside, a new peak of ours waits for this: stalloc_stale says so. */
STALLOC_API void stalloc_set_beside(int device, const struct stalloc_meters *now, int reset);
STALLOC_API int stalloc_stale(int device);

/* Called instead of returning NULL when memory runs out. It may throw a C++
 * exception through stalloc_malloc (which is compiled to let it pass); if it
 * returns, stalloc_malloc returns NULL. */
typedef void (*stalloc_thrower)(const char *function, const char *file, uint32_t line, const char *message);
STALLOC_API void stalloc_set_thrower(stalloc_thrower thrower);

/* For `stalloc record`: asks another allocator for a block of so many bytes and gives it back, every
 * `micros` microseconds until *stop is not 0. Both functions return 0 where all is well, as PyTorch's
 * aoti_torch_cuda_caching_allocator_raw_alloc and _delete do. Returns STALLOC_OK, or STALLOC_ERR_MEMORY
 * once one of them fails. */
typedef int (*stalloc_ask)(uint64_t bytes, void **block);
typedef int (*stalloc_give_back)(void *block);
STALLOC_API int stalloc_poll(stalloc_ask ask, stalloc_give_back give_back, uint64_t bytes, uint32_t micros, const int *stop);

/* Storage allocation as a problem of its own: offsets for buffers of known sizes and lives, so that
 * no two that live together share a byte. For compilers and other runtimes; nothing else of
 * stalloc is needed, no GPU and no stalloc_init. It is exported by libstalloc_engine.so: link with
 * -lstalloc_engine. Times are any numbers that say what comes before what, and all other numbers are in
 * bytes or any other unit. */
struct stalloc_gap { /* a time in which a buffer takes only its bytes [from, to), or none if they are equal */
	int64_t buffer, lower, upper, from, to;
};

struct stalloc_problem { /* set all to 0 first */
	size_t buffers;
	const int64_t *lower, *upper, *size; /* by buffer: it lives in [lower, upper) */
	const int64_t *alignment; /* by buffer: its offset is a multiple; NULL: of 1 */
	const int64_t *pinned;    /* by buffer: its offset, negative if it is free; NULL: all are */
	size_t gaps;
	const struct stalloc_gap *gap;
	int64_t capacity;   /* every buffer is to end below it; 0: as low as may be */
	const char *solver; /* a name as `stalloc plan --solver` takes it; NULL: the default */
	int64_t budget;     /* units of work, some ten million a second; 0: the default, a minute at most */
	uint64_t seed;      /* the same problem, budget and seed have the same result everywhere */
	const int64_t *warm; /* by buffer: an older placement to begin with; NULL: there is none */
	/* If not NULL, told at least every 10^6 units where the best placement ends, below which none can,
	 * and the units spent. Another answer than 0 ends the search with the best so far. It is called from
	 * the thread that called stalloc_solve, and must not throw. */
	int (*progress)(void *context, int64_t top, int64_t bound, int64_t units);
	void *context;
};

struct stalloc_solution {
	int64_t *offsets; /* of the caller, by buffer; set on STALLOC_OK */
	int64_t top;      /* where the highest buffer ends */
	int64_t bound;    /* no placement ends lower */
	int64_t units;    /* of work spent */
	int optimal;      /* 1: it is proved that nothing ends lower */
	int fits;         /* 1: all ends below the capacity, or there is none */
	int never;        /* 1: it is proved that no placement does */
	char *error;      /* of the caller, NULL or room for a text of error_size bytes, with its NUL */
	size_t error_size;
};

/* Returns STALLOC_OK, also if the capacity is not met; or STALLOC_ERR_ARGUMENT for what is no problem, with
 * the reason in error. */
STALLOC_API int stalloc_solve(struct stalloc_problem *problem, struct stalloc_solution *solution);

#ifdef __cplusplus
}
#endif
#endif
