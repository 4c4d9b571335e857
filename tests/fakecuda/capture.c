/* Stream capture. */
#include "stream.h"

static _Thread_local int thread_mode = STALLOC_CU_CAPTURE_MODE_GLOBAL;

void invalidate(void)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].capture == CAPTURING)
			streams[i].capture = INVALIDATED;
}

int capture_blocks(void)
{
	if (thread_mode == STALLOC_CU_CAPTURE_MODE_RELAXED)
		return 0;
	int capturing = 0;
	for (size_t i = 0; i < stream_count; i++)
		capturing |= streams[i].capture == CAPTURING;
	if (capturing)
		invalidate();
	return capturing;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	BEGIN(cuThreadExchangeStreamCaptureMode, NEED_INIT);
	if (mode == NULL || *mode < 0 || *mode > 2)
		return leave(STALLOC_CU_INVALID_VALUE);
	int old = thread_mode;
	thread_mode = *mode;
	*mode = old;
	return leave(0);
}

int implicit(const struct stream *s)
{
	int capturing = 0;
	for (size_t i = 0; i < stream_count && (uintptr_t)s->key <= 1; i++)
		capturing |= streams[i].blocking && streams[i].capture == CAPTURING;
	return capturing;
}

/* Whatever the thread's mode: a context is a broader handle of what is captured. */
int cuCtxSynchronize(void)
{
	BEGIN(cuCtxSynchronize, NEED_CONTEXT);
	int device = current_device();
	for (size_t i = 0; i < stream_count; i++) {
		if (streams[i].capture == NOT_CAPTURING ||
		    (streams[i].device >= 0 && streams[i].device != device))
			continue;
		invalidate();
		return leave(STALLOC_CU_CAPTURE_UNSUPPORTED);
	}
	stream_sync(device);
	return leave(0);
}

int cuStreamIsCapturing(void *stream, int *status)
{
	BEGIN(cuStreamIsCapturing, NEED_CONTEXT);
	struct stream *s = find_stream(stream);
	if (status == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (s == NULL)
		return leave(STALLOC_CU_INVALID_HANDLE);
	*status = s->capture;
	return leave(implicit(s) ? CAPTURE_IMPLICIT : 0);
}

/* Under the lock. Returns the state that was, or -1. */
int stream_capture(void *stream, int begin)
{
	struct stream *s = find_stream(stream);
	if (s == NULL || (begin && s->capture != NOT_CAPTURING))
		return -1;
	int was = s->capture;
	s->capture = begin ? CAPTURING : NOT_CAPTURING;
	s->captures += begin;
	return was;
}

void capture_reset(void)
{
	thread_mode = STALLOC_CU_CAPTURE_MODE_GLOBAL;
}
