/* What the parts of the simulated driver share: see fakecuda.h. */
#ifndef STALLOC_FAKE_H
#define STALLOC_FAKE_H

#include <stdint.h>

#include "../../cuda/driver.h"
#include "fakecuda.h"

#define PAGE ((size_t)2 << 20) /* granularity */
#define MAX_DEVICES 8

/* The exported functions, declared from the list of those the product calls:
 * a signature that differs does not compile. */
#define DECLARE(field, symbol, parameters) stalloc_cu_result symbol parameters;
STALLOC_DRIVER_CALLS(DECLARE)
#undef DECLARE

enum call {
#define NUMBER(field, symbol, parameters) CALL_##field,
	STALLOC_DRIVER_CALLS(NUMBER)
#undef NUMBER
	CALLS
};

/* What a call needs before its arguments are looked at. */
enum need {
	NEED_NOTHING,
	NEED_INIT,    /* cuInit */
	NEED_CONTEXT, /* a current context, too */
	NEED_SAFE     /* and no capture that this call would break, too */
};

struct settings {
	long capacity, devices, peers, event_delay, poison, any_stream;
	long reuse_streams, reuse_handles, held, rdma, fd, fabric;
};
extern struct settings settings;

/*
 * Every exported function runs between these two, under one lock. enter counts
 * the call, applies failure rules and needs, and returns an error or 0; leave
 * must follow either way and returns the code given.
 */
int enter(enum call call, enum need need);
int leave(int code);
#define BEGIN(name, need)                                                      \
	do {                                                                   \
		int refused_ = enter(CALL_##name, need);                       \
		if (refused_ != 0)                                             \
			return leave(refused_);                                \
	} while (0)

/* control.c */
void fatal(const char *what, const char *value);
void *checked(void *memory); /* ends the process on NULL */

/* context.c */
int initialised(void);
int device_exists(int device);
int current_device(void); /* -1: no current context */
void context_reset(void);
long context_live(void);

/* stream.c, capture.c, event.c */
int capture_blocks(void); /* and invalidates the captures it would break */
int stream_capture(void *stream, int begin);
void stream_reset(void);
long stream_queue(void *stream, long *at); /* index; -1: there is no such stream */
int stream_pass_some(unsigned long dice, long n);
void stream_pass_all(void *stream);
void stream_sync(int device); /* all of its work passes */
long event_live(void);
long stream_live(void);
long stream_dead_calls(void);

/* work.c: kernels that wait for their turn in a stream */
struct work {
	fakecuda_kernel kernel; /* NULL: a copy */
	void *at;
	size_t size;
	unsigned long tag;
	void *to; /* of a copy; one of at and to is the host's */
	int device;
	long stream, position;
};
enum { COPY_OUT, COPY_BACK }; /* a copy's tag */
int work_launch(void *stream, struct work w);
void work_run(long stream, long passed);
void work_reset(void);

/* ranges.c: disjoint address ranges, sorted */
struct range {
	uintptr_t addr;
	size_t size;
	int device;         /* of a plain block */
	struct page *pages; /* of a reservation */
	size_t mapped;      /* of a reservation: handles */
};
struct ranges {
	struct range *list;
	size_t count, room;
};
struct range *ranges_find(struct ranges *r, uintptr_t addr);
void ranges_add(struct ranges *r, struct range added);
void ranges_drop(struct ranges *r, struct range *dropped);

/* handles.c: handles by their index + 1 */
uint32_t handle_find(stalloc_cu_handle value); /* 0: not held */
size_t handle_size(uint32_t i);
int handle_broken(uint32_t i); /* its access rights cannot be set */
void handle_map(uint32_t i, void *at);
void handle_unmapped(uint32_t i);
void handle_reset(void);
long handle_live(void);

/* memory.c */
void memory_reset(void);
long mapping_live(void);
long reservation_live(void);
/* Bytes that can be read and written by the device from addr on, in mapped pages, at most size. */
size_t accessible(uintptr_t addr, size_t size, int device);

/* plain.c */
void plain_reset(void);
int usable(int device, uintptr_t addr, size_t size); /* by the device */
long plain_live(void);
long pinned_live(void);

/* usage.c: memory in use by device */
int usage_take_handle(int device, size_t size);
void usage_give_handle(int device, size_t size);
int usage_take_plain(int device, size_t size);
void usage_give_plain(int device, size_t size);
size_t usage(int device);
size_t usage_most(int device); /* since the last call */
void usage_reset(void);

#endif
