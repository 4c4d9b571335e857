/*
 * A CUDA driver made of ordinary memory, for tests without a GPU.
 *
 * Built as libcuda.so.1 it stands where the real driver would, and what it
 * hands out can be read and written: a physical handle is a part of one memfd, a
 * reservation is an inaccessible mapping, cuMemMap puts the handle's part of
 * the memfd there and cuMemSetAccess makes it accessible. So the same handle at
 * two addresses really is the same memory, a block handed out twice shows as
 * wrong bytes, and a stray access faults at once. New memory is filled with
 * 0xCB.
 *
 * Rules and error codes are those seen on an H100 with driver 580, stricter
 * where that one lets a mistake pass or crashes: unmapping what is not mapped,
 * access rights on a range with gaps or on part of a handle, and unknown handles
 * all give error 1. A handle is mapped whole (error 801 else) and unmapped whole.
 *
 * A handle's file descriptor can be imported in this process and in others that
 * use this driver. Its memory is given back when both are gone, but for the
 * bytes in the memfd, which stay: nobody knows who else has them.
 *
 * Settings, read from the environment at the first call and by fakecuda_reset:
 *   FAKECUDA_CAPACITY     bytes of memory of each device (default 8 GiB)
 *   FAKECUDA_DEVICES      number of devices, 0 to 8 (default 1)
 *   FAKECUDA_PEERS        0: no device can reach another's memory (default 1)
 *   FAKECUDA_EVENT_DELAY  queries an event answers with "not ready" (default 0)
 *   FAKECUDA_POISON       0: do not fill new memory (default 1)
 *   FAKECUDA_ANY_STREAM   1: accept stream handles nobody created (default 0)
 *   FAKECUDA_REUSE_STREAMS 1: a new stream has the address of the one that was
 *                         destroyed last (default 0)
 *   FAKECUDA_RDMA         1: memory can be made for RDMA; 2: so the device says,
 *                         and access to such memory fails, as under WSL2
 *                         (default 0)
 *   FAKECUDA_FD           0: no handle can be exported as a file descriptor
 *                         (default 1)
 *   FAKECUDA_FABRIC       1: handles can be exported to a fabric; 2: so the
 *                         device says, and no daemon runs (default 0)
 *   FAKECUDA_FAIL         as the argument of fakecuda_fail
 * A value that cannot be read ends the process: a test must not silently test
 * something else.
 */
#ifndef STALLOC_FAKECUDA_H
#define STALLOC_FAKECUDA_H

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes calls fail. The text is a list such as "cuMemMap:3:2,cuMemCreate:*:2":
 * function (without _v2, or * for any), which call from now on (a number from
 * 1, or * for all), and the error code. It replaces earlier rules; NULL or ""
 * ends them. cuGetErrorName is no part of "any". Returns 0, or -1 if the text
 * cannot be read; the earlier rules then stay.
 */
int fakecuda_fail(const char *rules);

/* Calls of a function since the start or fakecuda_reset, failed ones included;
 * "*" counts all but cuGetErrorName. -1: there is no such function. */
long fakecuda_count(const char *name);

/* How many "handles", "mappings", "reservations", "blocks" (plain memory),
 * "events", "streams" or "contexts" are alive; of "dead calls", how many named a
 * stream that had been destroyed. -1: no such kind. */
long fakecuda_live(const char *kind);

/* Begins a stream capture in global mode, which any unsafe call of a thread not
 * in relaxed mode invalidates; ends it and returns whether it is still valid
 * (1), was invalidated (2), or was not on (0). */
int fakecuda_capture_begin(void *stream);
int fakecuda_capture_end(void *stream);

/* Takes everything back, as if the process had just started. No other thread
 * may be inside the driver. */
void fakecuda_reset(void);

#ifdef __cplusplus
}
#endif

#endif
