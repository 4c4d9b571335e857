/*
 * One device's memory calls, each safe from any thread at any moment.
 *
 * A call of ours may come while the thread has no context or another device's,
 * and while some stream is captured into a graph. So every function here makes
 * the device's primary context current where the driver asks for one, switches
 * the thread to relaxed capture mode (in the default mode cuMemAlloc, cuMemFree,
 * and cuEventQuery invalidate any capture in the process),
 * and puts both back. All of that happens inside one C call, so a Go caller
 * cannot be moved to another thread half-way.
 *
 * The calls of virtual memory management need no context and get none.
 */
#ifndef STALLOC_CUDA_DEVICE_H
#define STALLOC_CUDA_DEVICE_H

#include <stdint.h>

#include "driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's granularity: the alignment of every mapping, and the size of a
 * physical handle is one or more times this. */
#define STALLOC_HANDLE_SIZE ((size_t)2 << 20)

#define STALLOC_MAX_PEERS 16

/* How a call went: code 0, or the driver's code and the call that gave it. */
struct stalloc_status {
	stalloc_cu_result code;
	const char *call;
};

struct stalloc_device {
	const struct stalloc_driver *driver;
	stalloc_cu_device ordinal;
	stalloc_cu_context context;
	struct stalloc_cu_prop prop; /* of the handles it makes */
	struct stalloc_cu_access access[1 + STALLOC_MAX_PEERS];
	size_t access_count; /* this device first, then its peers */
	/* The last error, if any, in putting a thread's context or capture mode
	 * back. The call before it had succeeded or failed on its own, and has
	 * said so. Written atomically. */
	stalloc_cu_result restore;
	int closed; /* written atomically; every later call answers 4 */
};

/* What is looked up about a device when it is opened. */
struct stalloc_device_facts {
	char name[256];
	int count;          /* devices of this driver */
	int version;        /* CUDA version of the driver, 13000 for 13.0 */
	int virtual_memory; /* whether the device can map handles */
	size_t granularity;
};

/* Fills out and facts and retains the primary context. On failure nothing is
 * retained; facts->count is set if it is known. */
struct stalloc_status stalloc_device_open(const struct stalloc_driver *driver,
					  int ordinal,
					  struct stalloc_device *out,
					  struct stalloc_device_facts *facts);
struct stalloc_status stalloc_device_close(struct stalloc_device *dev);

/* Has handles from now on made so that they can be exported as a type:
 * STALLOC_CU_HANDLE_FD or STALLOC_CU_HANDLE_FABRIC. Error 801, and nothing
 * changes, where the device cannot. */
struct stalloc_status stalloc_device_share(struct stalloc_device *dev,
					   int type);

/* Whether another device can reach this one's memory. */
struct stalloc_status stalloc_device_reached_by(struct stalloc_device *dev,
						int peer, int *can);
/* The device's UUID; of the instance, where the device is part of a GPU. */
struct stalloc_status stalloc_device_uuid(struct stalloc_device *dev,
					  struct stalloc_cu_uuid *uuid);
struct stalloc_status stalloc_device_reserve(struct stalloc_device *dev,
					     size_t size,
					     stalloc_cu_addr *addr);
struct stalloc_status stalloc_device_unreserve(struct stalloc_device *dev,
					       stalloc_cu_addr addr,
					       size_t size);
struct stalloc_status stalloc_device_create(struct stalloc_device *dev,
					    size_t size,
					    stalloc_cu_handle *handle);
struct stalloc_status stalloc_device_release(struct stalloc_device *dev,
					     stalloc_cu_handle handle);
/* What names the handle's memory in any process: a file descriptor, for the
 * caller to close, or a fabric's name, as stalloc_device_share has it. */
struct stalloc_status stalloc_device_export(struct stalloc_device *dev,
					    stalloc_cu_handle handle,
					    struct stalloc_exported *out);
/* As stalloc_map_exported, and told to no tracker. */
struct stalloc_status
stalloc_device_map_exported(struct stalloc_device *dev, stalloc_cu_addr addr,
			    size_t size, const struct stalloc_exported *what);
/* size is the handle's own: it is mapped whole. */
struct stalloc_status stalloc_device_map(struct stalloc_device *dev,
					 stalloc_cu_addr addr, size_t size,
					 stalloc_cu_handle handle);
struct stalloc_status stalloc_device_access(struct stalloc_device *dev,
					    stalloc_cu_addr addr, size_t size);
struct stalloc_status stalloc_device_unmap(struct stalloc_device *dev,
					   stalloc_cu_addr addr, size_t size);
struct stalloc_status stalloc_device_memory(struct stalloc_device *dev,
					    size_t *free, size_t *total);
struct stalloc_status stalloc_device_read(struct stalloc_device *dev, void *to,
					  stalloc_cu_addr from, size_t size);
struct stalloc_status stalloc_device_write(struct stalloc_device *dev,
					   stalloc_cu_addr to, const void *from,
					   size_t size);

/* Copies behind the work on a stream, without a wait. The host's memory must stay until the stream
 * has passed them; it is pinned, or the driver may wait after all. */
struct stalloc_status stalloc_device_copy_out(struct stalloc_device *dev,
					      void *to, stalloc_cu_addr from,
					      size_t size, uintptr_t stream);
struct stalloc_status stalloc_device_copy_back(struct stalloc_device *dev,
					       stalloc_cu_addr to,
					       const void *from, size_t size,
					       uintptr_t stream);

/* Memory of the host that is pinned is copied at the full speed of the link; it
 * must be whole pages that stay mapped until they are unpinned. */
struct stalloc_status stalloc_device_pin(struct stalloc_device *dev, void *at,
					 size_t size);
struct stalloc_status stalloc_device_unpin(struct stalloc_device *dev,
					   void *at);

/* Streams and events are passed as numbers: the driver's special streams 1 and
 * 2 must not lie on a Go stack dressed as pointers. */

/* Records an event behind the work on the stream, creating it first if *event
 * is 0; a created event is kept in *event even if the recording fails. On a
 * stream that is being captured the answer is 900: such an event could never
 * be asked about. */
struct stalloc_status stalloc_device_record(struct stalloc_device *dev,
					    uintptr_t stream,
					    uintptr_t *event);
/* Sets *done; "not ready" is no error. */
struct stalloc_status stalloc_device_query(struct stalloc_device *dev,
					   uintptr_t event, int *done);
/* What the stream is given from now on begins behind the event. */
struct stalloc_status stalloc_device_await(struct stalloc_device *dev,
					   uintptr_t stream, uintptr_t event);
struct stalloc_status stalloc_device_drop_event(struct stalloc_device *dev,
						uintptr_t event);
/* Waits for all streams of the device. The driver refuses while one is being
 * captured, and ends the capture. */
struct stalloc_status stalloc_device_sync(struct stalloc_device *dev);
struct stalloc_status stalloc_device_new_stream(struct stalloc_device *dev,
						uintptr_t *stream);
struct stalloc_status stalloc_device_drop_stream(struct stalloc_device *dev,
						 uintptr_t stream);

#ifdef __cplusplus
}
#endif

#endif
