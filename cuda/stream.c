/* Events and streams of a device: see device.h. */
#include "guard.h"

/* Whether the stream may be recorded on: not while it is being captured, when
 * the driver would hand out an event that can never be asked about. */
static struct stalloc_status not_capturing(struct stalloc_device *dev,
					   uintptr_t stream,
					   const char *call)
{
	int capturing = STALLOC_CU_CAPTURE_NONE;
	struct stalloc_status s =
		status(dev->driver->cuStreamIsCapturing(
			       (stalloc_cu_stream)stream, &capturing),
		       "cuStreamIsCapturing");
	if (s.code == STALLOC_CU_SUCCESS &&
	    capturing != STALLOC_CU_CAPTURE_NONE)
		s = status(STALLOC_CU_CAPTURE_UNSUPPORTED, call);
	return s;
}

static struct stalloc_status create(struct stalloc_device *dev,
				    uintptr_t *event)
{
	stalloc_cu_event made = NULL;
	struct stalloc_status s = status(
		dev->driver->cuEventCreate(&made,
					   STALLOC_CU_EVENT_DISABLE_TIMING),
		"cuEventCreate");
	if (s.code == STALLOC_CU_SUCCESS)
		*event = (uintptr_t)made;
	return s;
}

struct stalloc_status stalloc_device_record(struct stalloc_device *dev,
					    uintptr_t stream,
					    uintptr_t *event)
{
	struct guard g;
	struct stalloc_status s =
		enter(&g, dev, WITH_CONTEXT, "cuEventRecord");
	if (s.code != STALLOC_CU_SUCCESS)
		return s;
	s = not_capturing(dev, stream, "cuEventRecord");
	if (s.code == STALLOC_CU_SUCCESS && *event == 0)
		s = create(dev, event);
	if (s.code == STALLOC_CU_SUCCESS)
		s = status(dev->driver->cuEventRecord(
				   (stalloc_cu_event)*event,
				   (stalloc_cu_stream)stream),
			   "cuEventRecord");
	/* A capture that another thread has begun since then may have taken the event in. */
	if (s.code == STALLOC_CU_SUCCESS)
		s = not_capturing(dev, stream, "cuEventRecord");
	leave(&g);
	return s;
}

struct stalloc_status stalloc_device_query(struct stalloc_device *dev,
					   uintptr_t event, int *done)
{
	GUARDED(s, WITH_CONTEXT, cuEventQuery, ((stalloc_cu_event)event));
	*done = s.code == STALLOC_CU_SUCCESS;
	if (s.code == STALLOC_CU_NOT_READY)
		s.code = STALLOC_CU_SUCCESS;
	return s;
}

struct stalloc_status stalloc_device_await(struct stalloc_device *dev,
					   uintptr_t stream, uintptr_t event)
{
	GUARDED(s, WITH_CONTEXT, cuStreamWaitEvent,
		((stalloc_cu_stream)stream, (stalloc_cu_event)event, 0));
	return s;
}

struct stalloc_status stalloc_device_drop_event(struct stalloc_device *dev,
						uintptr_t event)
{
	GUARDED(s, WITH_CONTEXT, cuEventDestroy,
		((stalloc_cu_event)event));
	return s;
}

struct stalloc_status stalloc_device_sync(struct stalloc_device *dev)
{
	GUARDED(s, WITH_CONTEXT, cuCtxSynchronize, ());
	return s;
}

struct stalloc_status stalloc_device_new_stream(struct stalloc_device *dev,
						uintptr_t *stream)
{
	stalloc_cu_stream made = NULL;
	GUARDED(s, WITH_CONTEXT, cuStreamCreate,
		(&made, STALLOC_CU_STREAM_NON_BLOCKING));
	*stream = (uintptr_t)made;
	return s;
}

struct stalloc_status stalloc_device_drop_stream(struct stalloc_device *dev,
						 uintptr_t stream)
{
	GUARDED(s, WITH_CONTEXT, cuStreamDestroy,
		((stalloc_cu_stream)stream));
	return s;
}
