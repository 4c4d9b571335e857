/* What every call of a device does before and after: see device.h. Shared by
 * device.c and stream.c only. */
#ifndef STALLOC_CUDA_GUARD_H
#define STALLOC_CUDA_GUARD_H

#include "device.h"

static inline struct stalloc_status status(stalloc_cu_result code,
					   const char *call)
{
	return (struct stalloc_status){code, call};
}

/* What a call changed about its thread. */
struct guard {
	struct stalloc_device *dev;
	int pushed;
	int mode; /* the thread's own capture mode */
};

enum context { WITHOUT_CONTEXT, WITH_CONTEXT };

static inline void leave(const struct guard *g)
{
	const struct stalloc_driver *cu = g->dev->driver;
	int mode = g->mode;
	stalloc_cu_context popped;
	stalloc_cu_result code = cu->cuThreadExchangeStreamCaptureMode(&mode);
	if (code != STALLOC_CU_SUCCESS)
		__atomic_store_n(&g->dev->restore, code, __ATOMIC_RELAXED);
	if (!g->pushed)
		return;
	code = cu->cuCtxPopCurrent(&popped);
	if (code != STALLOC_CU_SUCCESS)
		__atomic_store_n(&g->dev->restore, code, __ATOMIC_RELAXED);
}

static inline struct stalloc_status
enter(struct guard *g, struct stalloc_device *dev, enum context need,
      const char *call)
{
	const struct stalloc_driver *cu = dev->driver;
	if (__atomic_load_n(&dev->closed, __ATOMIC_RELAXED))
		return status(STALLOC_CU_DEINITIALIZED, call);
	*g = (struct guard){dev, 0, STALLOC_CU_CAPTURE_MODE_RELAXED};
	struct stalloc_status s =
		status(cu->cuThreadExchangeStreamCaptureMode(&g->mode),
		       "cuThreadExchangeStreamCaptureMode");
	if (s.code != STALLOC_CU_SUCCESS || need == WITHOUT_CONTEXT)
		return s;
	stalloc_cu_context current = NULL;
	s = status(cu->cuCtxGetCurrent(&current), "cuCtxGetCurrent");
	if (s.code == STALLOC_CU_SUCCESS && current != dev->context) {
		s = status(cu->cuCtxPushCurrent(dev->context),
			   "cuCtxPushCurrent");
		g->pushed = s.code == STALLOC_CU_SUCCESS;
	}
	if (s.code != STALLOC_CU_SUCCESS)
		leave(g);
	return s;
}

/* Declares result and makes one driver call between enter and leave; if the
 * call could not be entered, the calling function returns that. */
#define GUARDED(result, need, call, arguments)                                 \
	struct guard guard_;                                                   \
	struct stalloc_status result = enter(&guard_, dev, need, #call);       \
	if (result.code != STALLOC_CU_SUCCESS)                                 \
		return result;                                                 \
	result = status(dev->driver->call arguments, #call);                   \
	leave(&guard_)

#endif
