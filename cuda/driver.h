/*
 * The CUDA driver as a table of functions, opened at run time.
 *
 * Nothing here links against libcuda or needs CUDA's headers: the program must
 * build and load where there is no GPU, and tests put a simulated libcuda in
 * the real one's place. The types below are the driver's binary interface as
 * CUDA 12 and 13 define it; they carry a prefix so that this header can be
 * included beside cuda.h.
 */
#ifndef STALLOC_CUDA_DRIVER_H
#define STALLOC_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int stalloc_cu_result;                /* CUresult */
typedef int stalloc_cu_device;                /* CUdevice */
typedef unsigned long long stalloc_cu_addr;   /* CUdeviceptr */
typedef unsigned long long stalloc_cu_handle; /* CUmemGenericAllocationHandle */
typedef void *stalloc_cu_context;             /* CUcontext */
typedef void *stalloc_cu_stream;              /* CUstream */
typedef void *stalloc_cu_event;               /* CUevent */

/* CUuuid */
struct stalloc_cu_uuid {
	unsigned char bytes[16];
};

/* CUmemLocation */
struct stalloc_cu_location {
	int type; /* CUmemLocationType */
	int id;
};

/* CUmemAllocationProp */
struct stalloc_cu_prop {
	int type;         /* CUmemAllocationType */
	int handle_types; /* CUmemAllocationHandleType, 0: none */
	struct stalloc_cu_location location;
	void *win32;
	unsigned char compression;
	unsigned char gpu_direct_rdma;
	unsigned short usage;
	unsigned char reserved[4];
};

/* CUmemAccessDesc */
struct stalloc_cu_access {
	struct stalloc_cu_location location;
	int flags; /* CUmemAccess_flags */
};

enum {
	STALLOC_CU_SUCCESS = 0,
	STALLOC_CU_INVALID_VALUE = 1,
	STALLOC_CU_OUT_OF_MEMORY = 2,
	STALLOC_CU_NOT_INITIALIZED = 3,
	STALLOC_CU_DEINITIALIZED = 4,
	STALLOC_CU_INVALID_DEVICE = 101,
	STALLOC_CU_INVALID_CONTEXT = 201,
	STALLOC_CU_INVALID_HANDLE = 400,
	STALLOC_CU_NOT_READY = 600,
	STALLOC_CU_ALREADY_PINNED = 712, /* HOST_MEMORY_ALREADY_REGISTERED */
	STALLOC_CU_NOT_PINNED = 713,     /* HOST_MEMORY_NOT_REGISTERED */
	STALLOC_CU_NOT_PERMITTED = 800,
	STALLOC_CU_NOT_SUPPORTED = 801,
	STALLOC_CU_CAPTURE_UNSUPPORTED = 900,
	STALLOC_CU_UNKNOWN = 999,

	STALLOC_CU_ALLOCATION_PINNED = 1,
	STALLOC_CU_LOCATION_DEVICE = 1,
	STALLOC_CU_ACCESS_READ_WRITE = 3,
	STALLOC_CU_GRANULARITY_MINIMUM = 0,
	STALLOC_CU_ATTRIBUTE_VMM = 102, /* VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	STALLOC_CU_ATTRIBUTE_FD = 103, /* HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
	STALLOC_CU_ATTRIBUTE_RDMA = 110, /* GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
	STALLOC_CU_ATTRIBUTE_FABRIC = 128, /* HANDLE_TYPE_FABRIC_SUPPORTED */
	STALLOC_CU_HANDLE_FD = 1,          /* POSIX_FILE_DESCRIPTOR */
	STALLOC_CU_HANDLE_FABRIC = 8,
	STALLOC_CU_EVENT_DISABLE_TIMING = 2,
	STALLOC_CU_STREAM_NON_BLOCKING = 1,
	STALLOC_CU_CAPTURE_MODE_GLOBAL = 0,
	STALLOC_CU_CAPTURE_MODE_RELAXED = 2,
	STALLOC_CU_CAPTURE_NONE = 0 /* CUstreamCaptureStatus */
};

/*
 * Every function we call: field name, exported symbol, parameters. The list
 * makes the struct, the symbol resolution and the simulated driver's
 * declarations, so that the three cannot drift apart.
 */
#define STALLOC_DRIVER_CALLS(X)                                                \
	X(cuInit, cuInit, (unsigned int flags))                                \
	X(cuDriverGetVersion, cuDriverGetVersion, (int *version))              \
	X(cuDeviceGetCount, cuDeviceGetCount, (int *count))                    \
	X(cuDeviceGet, cuDeviceGet, (stalloc_cu_device *dev, int ordinal))     \
	X(cuDeviceGetName, cuDeviceGetName,                                    \
	  (char *name, int len, stalloc_cu_device dev))                        \
	X(cuDeviceGetUuid, cuDeviceGetUuid_v2,                                 \
	  (struct stalloc_cu_uuid * uuid, stalloc_cu_device dev))              \
	X(cuDeviceGetAttribute, cuDeviceGetAttribute,                          \
	  (int *value, int attribute, stalloc_cu_device dev))                  \
	X(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer,                        \
	  (int *can, stalloc_cu_device dev, stalloc_cu_device peer))           \
	X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain,                  \
	  (stalloc_cu_context * ctx, stalloc_cu_device dev))                   \
	X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2,             \
	  (stalloc_cu_device dev))                                             \
	X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (stalloc_cu_context ctx))     \
	X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (stalloc_cu_context * ctx))     \
	X(cuCtxGetCurrent, cuCtxGetCurrent, (stalloc_cu_context * ctx))        \
	X(cuCtxSynchronize, cuCtxSynchronize, (void))                          \
	X(cuMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))        \
	X(cuMemAddressReserve, cuMemAddressReserve,                            \
	  (stalloc_cu_addr * addr, size_t size, size_t alignment,              \
	   stalloc_cu_addr hint, unsigned long long flags))                    \
	X(cuMemAddressFree, cuMemAddressFree,                                  \
	  (stalloc_cu_addr addr, size_t size))                                 \
	X(cuMemCreate, cuMemCreate,                                            \
	  (stalloc_cu_handle * handle, size_t size,                            \
	   const struct stalloc_cu_prop *prop, unsigned long long flags))      \
	X(cuMemRelease, cuMemRelease, (stalloc_cu_handle handle))              \
	X(cuMemExportToShareableHandle, cuMemExportToShareableHandle,          \
	  (void *out, stalloc_cu_handle handle, int type,                      \
	   unsigned long long flags))                                          \
	X(cuMemImportFromShareableHandle, cuMemImportFromShareableHandle,      \
	  (stalloc_cu_handle * handle, void *from, int type))                  \
	X(cuMemMap, cuMemMap,                                                  \
	  (stalloc_cu_addr addr, size_t size, size_t offset,                   \
	   stalloc_cu_handle handle, unsigned long long flags))                \
	X(cuMemUnmap, cuMemUnmap, (stalloc_cu_addr addr, size_t size))         \
	X(cuMemSetAccess, cuMemSetAccess,                                      \
	  (stalloc_cu_addr addr, size_t size,                                  \
	   const struct stalloc_cu_access *access, size_t count))              \
	X(cuMemGetAllocationGranularity, cuMemGetAllocationGranularity,        \
	  (size_t *size, const struct stalloc_cu_prop *prop, int option))      \
	X(cuMemAlloc, cuMemAlloc_v2, (stalloc_cu_addr * addr, size_t size))    \
	X(cuMemFree, cuMemFree_v2, (stalloc_cu_addr addr))                     \
	X(cuMemcpyDtoH, cuMemcpyDtoH_v2,                                       \
	  (void *to, stalloc_cu_addr from, size_t size))                       \
	X(cuMemcpyHtoD, cuMemcpyHtoD_v2,                                       \
	  (stalloc_cu_addr to, const void *from, size_t size))                 \
	X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                             \
	  (void *to, stalloc_cu_addr from, size_t size,                        \
	   stalloc_cu_stream stream))                                          \
	X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                             \
	  (stalloc_cu_addr to, const void *from, size_t size,                  \
	   stalloc_cu_stream stream))                                          \
	X(cuMemHostRegister, cuMemHostRegister_v2,                             \
	  (void *at, size_t size, unsigned int flags))                         \
	X(cuMemHostUnregister, cuMemHostUnregister, (void *at))                \
	X(cuEventCreate, cuEventCreate,                                        \
	  (stalloc_cu_event * event, unsigned int flags))                      \
	X(cuEventRecord, cuEventRecord,                                        \
	  (stalloc_cu_event event, stalloc_cu_stream stream))                  \
	X(cuEventQuery, cuEventQuery, (stalloc_cu_event event))                \
	X(cuEventDestroy, cuEventDestroy_v2, (stalloc_cu_event event))         \
	X(cuStreamCreate, cuStreamCreate,                                      \
	  (stalloc_cu_stream * stream, unsigned int flags))                    \
	X(cuStreamDestroy, cuStreamDestroy_v2, (stalloc_cu_stream stream))     \
	X(cuStreamWaitEvent, cuStreamWaitEvent,                                \
	  (stalloc_cu_stream stream, stalloc_cu_event event,                   \
	   unsigned int flags))                                                \
	X(cuStreamIsCapturing, cuStreamIsCapturing,                            \
	  (stalloc_cu_stream stream, int *status))                             \
	X(cuThreadExchangeStreamCaptureMode,                                   \
	  cuThreadExchangeStreamCaptureMode, (int *mode))                      \
	X(cuGetErrorName, cuGetErrorName,                                      \
	  (stalloc_cu_result code, const char **name))

/* Is told what becomes of memory of a device: it is mapped, as one handle or
 * plain block, it can be used from now on, and before it is unmapped. */
typedef void (*stalloc_tracker)(int device, void *at, size_t size, int change);
enum { STALLOC_CU_MAPPED, STALLOC_CU_USABLE, STALLOC_CU_UNMAPPED };

struct stalloc_driver {
	void *handle; /* from dlopen; never closed while the table is in use */
	stalloc_tracker *tracker; /* read atomically; it, or what it points to, NULL: nobody */
#define STALLOC_DRIVER_FIELD(field, symbol, parameters)                        \
	stalloc_cu_result(*field) parameters;
	STALLOC_DRIVER_CALLS(STALLOC_DRIVER_FIELD)
#undef STALLOC_DRIVER_FIELD
};

/*
 * Opens the driver library at path (NULL: libcuda.so.1, found as the dynamic
 * linker finds it) and fills the table. Calls nothing in it, so it is safe
 * before cuInit and leaves CUDA uninitialised. Returns 0, or -1 with a text in
 * err that names the library and the remedy; the table is then zeroed.
 */
int stalloc_driver_open(const char *path, struct stalloc_driver *out, char *err,
			size_t errlen);

static inline void stalloc_track(const struct stalloc_driver *driver,
				 int device, stalloc_cu_addr at, size_t size,
				 int change)
{
	stalloc_tracker tracker = NULL;
	if (driver->tracker != NULL)
		tracker = __atomic_load_n(driver->tracker, __ATOMIC_ACQUIRE);
	if (tracker != NULL)
		tracker(device, (void *)(uintptr_t)at, size, change);
}

/* What a handle is exported as, and other processes import: a file descriptor
 * or, where that is negative, a fabric's name, a CUmemFabricHandle. */
struct stalloc_exported {
	int fd;
	unsigned char name[64];
};

/* Maps all of what is exported, of so many bytes, at an address: it lives as
 * long as it is mapped. The file descriptor stays the caller's. *call: the
 * driver's function that failed. */
stalloc_cu_result stalloc_map_exported(const struct stalloc_driver *driver,
				       stalloc_cu_addr at, size_t size,
				       const struct stalloc_exported *what,
				       const char **call);

/* A handle, if it is held, and a reservation of which so much is mapped. */
struct stalloc_leftover {
	stalloc_cu_handle handle;
	stalloc_cu_addr at;
	size_t reserved, mapped;
	int held;
};

/* Gives it back. What the driver does not take is kept, and tried again by
 * stalloc_tidy; *call is then the function that failed. */
stalloc_cu_result stalloc_undo(const struct stalloc_driver *driver,
			       struct stalloc_leftover what, const char **call);
void stalloc_tidy(const struct stalloc_driver *driver);

/* The name of a driver error, such as CUDA_ERROR_OUT_OF_MEMORY, or "". */
const char *stalloc_driver_error_name(const struct stalloc_driver *driver,
				      stalloc_cu_result code);

#ifdef __cplusplus
}
#endif

#endif
