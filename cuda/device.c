/* One device's memory calls, each safe from any thread: see device.h. */
#include "guard.h"

#include <string.h>

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
	TRY(cuDevicePrimaryCtxRetain, (&out->context, out->ordinal));
	return status(STALLOC_CU_SUCCESS, "");
}

struct stalloc_status stalloc_device_close(struct stalloc_device *dev)
{
	__atomic_store_n(&dev->closed, 1, __ATOMIC_RELAXED);
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
	struct stalloc_cu_prop prop = handle_prop(dev);
	GUARDED(s, WITHOUT_CONTEXT, cuMemCreate, (handle, size, &prop, 0));
	return s;
}

struct stalloc_status stalloc_device_release(struct stalloc_device *dev,
					     stalloc_cu_handle handle)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemRelease, (handle));
	return s;
}

struct stalloc_status stalloc_device_map(struct stalloc_device *dev,
					 stalloc_cu_addr addr, size_t size,
					 stalloc_cu_handle handle)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemMap, (addr, size, 0, handle, 0));
	return s;
}

struct stalloc_status stalloc_device_access(struct stalloc_device *dev,
					    stalloc_cu_addr addr, size_t size)
{
	GUARDED(s, WITHOUT_CONTEXT, cuMemSetAccess,
		(addr, size, dev->access, dev->access_count));
	return s;
}

struct stalloc_status stalloc_device_unmap(struct stalloc_device *dev,
					   stalloc_cu_addr addr, size_t size)
{
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
