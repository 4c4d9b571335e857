/* The little of the CUDA driver that this example needs for itself, as any
 * program that launches work has it: streams, and copies to and from the device.
 * The library is opened at run time, so that the example builds without CUDA.
 * Every function ends the process with a message if the driver fails. */
#ifndef EMBED_GPU_H
#define EMBED_GPU_H

#include <stddef.h>

/* Opens the driver library, the first device and its primary context. */
void gpu_open(const char *library);
/* Makes that context current; for each thread once. */
void gpu_thread(void);
void *gpu_new_stream(void);
void gpu_write(void *device, const void *host, size_t n);
void gpu_read(void *host, const void *device, size_t n);

#endif
