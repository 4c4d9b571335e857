/* One device's memory calls, each safe from any thread: see device.h. */
#include "guard.h"

#include <string.h>
#include <unistd.h>

static struct stalloc_cu_prop handle_prop(const struct stalloc_device *dev)
{
	struct stalloc_cu_prop prop;
	memset(&prop, 0, sizeof prop);
	prop.type = STALLOC_CU_ALLOCATION_PINNED;
	prop.location.type = STALLOC_CU_LOCATION_DEVICE;
	prop.location.id = dev->ordinal;
	return prop;
}

#define TRY(call, arguments)                                                   \
	do {                                                                   \
		struct stalloc_status tried_ =                                 \
			status(driver->call arguments, #call);                 \
		if (tried_.code != STALLOC_CU_SUCCESS)                         \
			return tried_;                                         \
	} while (0)

/* Where the driver writes what a handle is exported as. */
static void *answer(struct stalloc_exported *out, int type)
{
	out->fd = -1;
	return type == STALLOC_CU_HANDLE_FD ? (void *)&out->fd :
					      (void *)out->name;
}

/* Whether a handle of the device's kind can be made, used, and exported where
 * that is its kind. What the driver says that it supports is not enough: under
 * WSL2 access to memory for RDMA fails, and fabric handles need a daemon. */
static int rehearse(struct stalloc_device *dev)
{
	const struct stalloc_driver *cu = dev->driver;
	struct stalloc_leftover of = {.held = 1};
	struct stalloc_exported out;
	const char *call;
	int type = dev->prop.handle_types;
	size_t size = STALLOC_HANDLE_SIZE;
	if (cu->cuMemCreate(&of.handle, size, &dev->prop, 0) != STALLOC_CU_SUCCESS)
		return 0;
	int good = cu->cuMemAddressReserve(&of.at, size, size, 0, 0) ==
		   STALLOC_CU_SUCCESS;
	if (good) {
		of.reserved = size;
		good = cu->cuMemMap(of.at, size, 0, of.handle, 0) ==
		       STALLOC_CU_SUCCESS;
	}
	if (good) {
		of.mapped = size;
		good = cu->cuMemSetAccess(of.at, size, dev->access,
					  dev->access_count) ==
		       STALLOC_CU_SUCCESS;
	}
	if (good && type != 0) {
		good = cu->cuMemExportToShareableHandle(answer(&out, type),
							of.handle, type, 0) ==
		       STALLOC_CU_SUCCESS;
		if (good && type == STALLOC_CU_HANDLE_FD)
			close(out.fd);
	}
	return (stalloc_undo(cu, of, &call) == STALLOC_CU_SUCCESS) & good;
}

struct stalloc_status stalloc_device_open(const struct stalloc_driver *driver,
					  int ordinal,
					  struct stalloc_device *out,
					  struct stalloc_device_facts *facts)
{
	memset(out, 0, sizeof *out);
	memset(facts, 0, sizeof *facts);
	out->driver = driver;
	TRY(cuInit, (0));
	TRY(cuDriverGetVersion, (&facts->version));
	TRY(cuDeviceGetCount, (&facts->count));
	TRY(cuDeviceGet, (&out->ordinal, ordinal));
	TRY(cuDeviceGetName,
	    (facts->name, (int)sizeof facts->name - 1, out->ordinal));
	TRY(cuDeviceGetAttribute, (&facts->virtual_memory,
				   STALLOC_CU_ATTRIBUTE_VMM, out->ordinal));
	struct stalloc_cu_prop prop = handle_prop(out);
	if (facts->virtual_memory)
		TRY(cuMemGetAllocationGranularity,
		    (&facts->granularity, &prop,
		     STALLOC_CU_GRANULARITY_MINIMUM));
	out->access[0].location = prop.location;
	out->access[0].flags = STALLOC_CU_ACCESS_READ_WRITE;
	out->access_count = 1;
	int rdma = 0;
	TRY(cuDeviceGetAttribute,
	    (&rdma, STALLOC_CU_ATTRIBUTE_RDMA, out->ordinal));
	TRY(cuDevicePrimaryCtxRetain, (&out->context, out->ordinal));
	out->prop = prop;
	out->prop.gpu_direct_rdma = rdma != 0;
	if (rdma && !rehearse(out))
		out->prop.gpu_direct_rdma = 0;
	return status(STALLOC_CU_SUCCESS, "");
}

struct stalloc_status stalloc_device_share(struct stalloc_device *dev, int type)
{
	int attribute = type == STALLOC_CU_HANDLE_FD
				? STALLOC_CU_ATTRIBUTE_FD
				: STALLOC_CU_ATTRIBUTE_FABRIC;
	int can = 0;
	GUARDED(s, WITHOUT_CONTEXT, cuDeviceGetAttribute,
		(&can, attribute, dev->ordinal));
	if (s.code != STALLOC_CU_SUCCESS)
		return s;
	dev->prop.handle_types = type;
	if (can && rehearse(dev))
		return s;
	dev->prop.handle_types = 0;
	return status(STALLOC_CU_NOT_SUPPORTED, "cuMemExportToShareableHandle");
}

struct stalloc_status stalloc_device_close(struct stalloc_device *dev)
{
	__atomic_store_n(&dev->closed, 1, __ATOMIC_RELAXED);
	stalloc_tidy(dev->driver);
	return status(dev->driver->cuDevicePrimaryCtxRelease(dev->ordinal),
		      "cuDevicePrimaryCtxRelease");
}

struct stalloc_status stalloc_device_uuid(struct stalloc_device *dev,
					  struct stalloc_cu_uuid *uuid)
{
	GUARDED(s, WITHOUT_CONTEXT, cuDeviceGetUuid, (uuid, dev->ordinal));
	return s;
}

struct stalloc_status stalloc_device_reached_by(struct stalloc_device *dev,
						int peer, int *can)
{
	GUARDED(s, WITHOUT_CONTEXT, cuDeviceCanAccessPeer,
		(can, peer, dev->ordinal));
	return s;
}

struct stalloc_status stalloc_device_reserve(struct stalloc_device *dev,
					     size_t size, stalloc_cu_addr *addr)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemAddressReserve,
		(addr, size, STALLOC_HANDLE_SIZE, 0, 0));
	return s;
}

struct stalloc_status stalloc_device_unreserve(struct stalloc_device *dev,
					       stalloc_cu_addr addr,
					       size_t size)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemAddressFree, (addr, size));
	return s;
}

struct stalloc_status stalloc_device_create(struct stalloc_device *dev,
					    size_t size,
					    stalloc_cu_handle *handle)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemCreate, (handle, size, &dev->prop, 0));
	return s;
}

struct stalloc_status stalloc_device_release(struct stalloc_device *dev,
					     stalloc_cu_handle handle)
{
	struct guard guard;
	struct stalloc_status s =
		enter(&guard, dev, WITHOUT_CONTEXT, "cuMemRelease");
	if (s.code != STALLOC_CU_SUCCESS)
		return s;
	s.code = dev->driver->cuMemRelease(handle);
	stalloc_tidy(dev->driver);
	leave(&guard);
	return s;
}

struct stalloc_status stalloc_device_export(struct stalloc_device *dev,
					    stalloc_cu_handle handle,
					    struct stalloc_exported *out)
{
	int type = dev->prop.handle_types;
	GUARDED(s, WITHOUT_CONTEXT, cuMemExportToShareableHandle,
		(answer(out, type), handle, type, 0));
	return s;
}

struct stalloc_status
stalloc_device_map_exported(struct stalloc_device *dev, stalloc_cu_addr addr,
			    size_t size, const struct stalloc_exported *what)
{
	struct guard guard;
	struct stalloc_status s = enter(&guard, dev, WITHOUT_CONTEXT,
					"cuMemImportFromShareableHandle");
	if (s.code != STALLOC_CU_SUCCESS)
		return s;
	s.code = stalloc_map_exported(dev->driver, addr, size, what, &s.call);
	leave(&guard);
	return s;
}

struct stalloc_status stalloc_device_map(struct stalloc_device *dev,
					 stalloc_cu_addr addr, size_t size,
					 stalloc_cu_handle handle)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemMap, (addr, size, 0, handle, 0));
	if (s.code == STALLOC_CU_SUCCESS)
		stalloc_track(dev->driver, dev->ordinal, addr, size,
			      STALLOC_CU_MAPPED);
	return s;
}

struct stalloc_status stalloc_device_access(struct stalloc_device *dev,
					    stalloc_cu_addr addr, size_t size)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemSetAccess,
		(addr, size, dev->access, dev->access_count));
	if (s.code == STALLOC_CU_SUCCESS)
		stalloc_track(dev->driver, dev->ordinal, addr, size,
			      STALLOC_CU_USABLE);
	return s;
}

struct stalloc_status stalloc_device_unmap(struct stalloc_device *dev,
					   stalloc_cu_addr addr, size_t size)
{
	stalloc_track(dev->driver, dev->ordinal, addr, size,
		      STALLOC_CU_UNMAPPED);
	GUARDED(s, WITHOUT_CONTEXT, cuMemUnmap, (addr, size));
	return s;
}

struct stalloc_status stalloc_device_memory(struct stalloc_device *dev,
					    size_t *free, size_t *total)
{
	GUARDED(s, WITH_CONTEXT, cuMemGetInfo, (free, total));
	return s;
}

struct stalloc_status stalloc_device_read(struct stalloc_device *dev, void *to,
					  stalloc_cu_addr from, size_t size)
{
	GUARDED(s, WITH_CONTEXT, cuMemcpyDtoH, (to, from, size));
	return s;
}

struct stalloc_status stalloc_device_write(struct stalloc_device *dev,
					   stalloc_cu_addr to, const void *from,
					   size_t size)
{
	GUARDED(s, WITH_CONTEXT, cuMemcpyHtoD, (to, from, size));
	return s;
}

struct stalloc_status stalloc_device_copy_out(struct stalloc_device *dev,
					      void *to, stalloc_cu_addr from,
					      size_t size, uintptr_t stream)
{
	GUARDED(s, WITH_CONTEXT, cuMemcpyDtoHAsync,
		(to, from, size, (stalloc_cu_stream)stream));
	return s;
}

struct stalloc_status stalloc_device_copy_back(struct stalloc_device *dev,
					       stalloc_cu_addr to,
					       const void *from, size_t size,
					       uintptr_t stream)
{
	GUARDED(s, WITH_CONTEXT, cuMemcpyHtoDAsync,
		(to, from, size, (stalloc_cu_stream)stream));
	return s;
}

struct stalloc_status stalloc_device_pin(struct stalloc_device *dev, void *at,
					 size_t size)
{
	GUARDED(s, WITH_CONTEXT, cuMemHostRegister, (at, size, 0));
	return s;
}

struct stalloc_status stalloc_device_unpin(struct stalloc_device *dev, void *at)
{
	GUARDED(s, WITH_CONTEXT, cuMemHostUnregister, (at));
	return s;
}
