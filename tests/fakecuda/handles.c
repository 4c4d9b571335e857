/* Physical handles: each is a stretch of one memfd, punched out after release. */
#define _GNU_SOURCE
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POISON 0xCB

/* A handle's value is its index + 1 below the number of times the index was reused, so that a
 * released value never names a newer handle, unless values are to come again. No place in the memfd
 * is used twice: what is punched out takes no memory. */
static struct handle {
	off_t at; /* in the memfd */
	size_t size;
	uint32_t reuse;
	uint32_t maps;
	int device;
	int held;
	int file;     /* that it lies in: the memfd, or another process's */
	int exported; /* others may have it, so it is not punched out */
	int types;    /* that it can be exported as */
	int rdma;
} *handles;
static uint32_t handle_count, handle_room;
static uint32_t *idle;
static uint32_t idle_count;
static int memfd = -1;
static off_t memfd_end;

/* Index + 1 of a handle that is held, or 0. */
uint32_t handle_find(stalloc_cu_handle value)
{
	uint32_t i = (uint32_t)value;
	if (i == 0 || i > handle_count || !handles[i - 1].held ||
	    handles[i - 1].reuse != (uint32_t)(value >> 32))
		return 0;
	return i;
}

size_t handle_size(uint32_t i)
{
	return handles[i - 1].size;
}

/* Frees the memory of a handle that is neither held nor mapped. */
static void retire(uint32_t i)
{
	struct handle *h = &handles[i - 1];
	if (h->held || h->maps > 0)
		return;
	h->reuse += !settings.reuse_handles;
	idle[idle_count++] = i;
	if (h->file != memfd) {
		close(h->file);
		return;
	}
	usage_give_handle(h->device, h->size);
	if (h->exported)
		return;
	if (fallocate(memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		      h->at, (off_t)h->size) != 0)
		fatal("memfd", "cannot give memory back");
}

static uint32_t new_index(void)
{
	if (idle_count > 0)
		return idle[--idle_count];
	if (handle_count == handle_room) {
		handle_room = handle_room == 0 ? 256 : 2 * handle_room;
		handles = checked(
			realloc(handles, handle_room * sizeof handles[0]));
		idle = checked(realloc(idle, handle_room * sizeof idle[0]));
	}
	memset(&handles[handle_count], 0, sizeof handles[0]);
	return ++handle_count;
}

static void place(struct handle *h, size_t size)
{
	h->at = memfd_end;
	h->size = size;
	memfd_end += (off_t)size;
	if (memfd < 0)
		memfd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (memfd < 0 || ftruncate(memfd, memfd_end) != 0)
		fatal("memfd", "cannot grow");
	h->file = memfd;
	h->exported = 0;
}

static void poison(const struct handle *h)
{
	static unsigned char filler[PAGE];
	if (!settings.poison)
		return;
	if (filler[0] != POISON)
		memset(filler, POISON, sizeof filler);
	for (size_t at = 0; at < h->size; at += PAGE)
		if (pwrite(memfd, filler, PAGE, h->at + (off_t)at) !=
		    (ssize_t)PAGE)
			fatal("memfd", "cannot fill new memory");
}

void handle_map(uint32_t i, void *at)
{
	struct handle *h = &handles[i - 1];
	if (mmap(at, h->size, PROT_NONE, MAP_SHARED | MAP_FIXED,
		 h->file, h->at) == MAP_FAILED)
		fatal("mmap", "cannot map a handle; too many mappings?");
	h->maps++;
}

void handle_unmapped(uint32_t i)
{
	handles[i - 1].maps--;
	retire(i);
}

int handle_broken(uint32_t i)
{
	return handles[i - 1].rdma && settings.rdma == 2;
}

/* The driver's answer to what a handle is to be, beside memory of a device. */
static int refused(const struct stalloc_cu_prop *prop)
{
	int types = prop->handle_types;
	if ((types & ~(STALLOC_CU_HANDLE_FD | STALLOC_CU_HANDLE_FABRIC)) != 0)
		return STALLOC_CU_INVALID_VALUE;
	if ((prop->gpu_direct_rdma && settings.rdma == 0) ||
	    ((types & STALLOC_CU_HANDLE_FD) && settings.fd == 0) ||
	    ((types & STALLOC_CU_HANDLE_FABRIC) && settings.fabric == 0))
		return STALLOC_CU_NOT_SUPPORTED;
	if ((types & STALLOC_CU_HANDLE_FABRIC) && settings.fabric == 2)
		return STALLOC_CU_NOT_PERMITTED;
	return 0;
}

static int valid_prop(const struct stalloc_cu_prop *prop)
{
	return prop != NULL && prop->type == STALLOC_CU_ALLOCATION_PINNED &&
	       prop->location.type == STALLOC_CU_LOCATION_DEVICE;
}

int cuMemGetAllocationGranularity(size_t *size,
				  const struct stalloc_cu_prop *prop,
				  int option)
{
	BEGIN(cuMemGetAllocationGranularity, NEED_INIT);
	if (size == NULL || !valid_prop(prop) || option < 0 || option > 1)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(prop->location.id))
		return leave(STALLOC_CU_INVALID_DEVICE);
	*size = PAGE;
	return leave(0);
}

int cuMemCreate(stalloc_cu_handle *handle, size_t size,
		const struct stalloc_cu_prop *prop, unsigned long long flags)
{
	BEGIN(cuMemCreate, NEED_INIT);
	if (handle == NULL || !valid_prop(prop) || flags != 0 || size == 0 ||
	    size % PAGE != 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!device_exists(prop->location.id))
		return leave(STALLOC_CU_INVALID_DEVICE);
	if (refused(prop) != 0)
		return leave(refused(prop));
	if (!usage_take_handle(prop->location.id, size))
		return leave(STALLOC_CU_OUT_OF_MEMORY);
	uint32_t i = new_index();
	struct handle *h = &handles[i - 1];
	h->held = 1;
	h->device = prop->location.id;
	h->types = prop->handle_types;
	h->rdma = prop->gpu_direct_rdma;
	place(h, size);
	poison(h);
	*handle = (stalloc_cu_handle)h->reuse << 32 | i;
	return leave(0);
}

int cuMemRelease(stalloc_cu_handle handle)
{
	BEGIN(cuMemRelease, NEED_INIT);
	uint32_t i = handle_find(handle);
	if (i == 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	handles[i - 1].held = 0;
	retire(i);
	return leave(0);
}

/* What names a handle is an open file of the memfd's own: it stands where the
 * handle begins, and its pages are counted in what is below a page. */
static int export(struct handle *h)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", memfd);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && lseek(fd, h->at | (off_t)(h->size / PAGE), SEEK_SET) < 0)
		fatal("memfd", "cannot be exported");
	h->exported = 1;
	return fd;
}

/* A fabric's name tells where in which process's memfd a handle begins. */
struct name {
	pid_t process;
	int memfd;
	int64_t at;
};

/* The driver's answer to a fabric's name: the daemon looks for who has it. */
static int found(const struct name *name, int *fd)
{
	char path[64];
	if (settings.fabric != 1)
		return settings.fabric == 0 ? STALLOC_CU_NOT_SUPPORTED
					    : STALLOC_CU_NOT_PERMITTED;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name->process,
		 name->memfd);
	*fd = open(path, O_RDWR | O_CLOEXEC);
	return *fd < 0 ? STALLOC_CU_INVALID_HANDLE : 0;
}

int cuMemImportFromShareableHandle(stalloc_cu_handle *handle, void *from,
				   int type)
{
	BEGIN(cuMemImportFromShareableHandle, NEED_INIT);
	int fd = (int)(intptr_t)from;
	off_t at = -1;
	if (type == STALLOC_CU_HANDLE_FABRIC && from != NULL) {
		struct name name;
		memcpy(&name, from, sizeof name);
		int why = found(&name, &fd);
		if (why != 0)
			return leave(why);
		at = name.at;
	} else if (type == STALLOC_CU_HANDLE_FD) {
		at = lseek(fd, 0, SEEK_CUR);
	}
	if (handle == NULL || at < 0 || at % (off_t)PAGE == 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	uint32_t i = new_index();
	struct handle *h = &handles[i - 1];
	h->held = 1;
	h->rdma = 0;
	h->types = 0;
	h->at = at - at % (off_t)PAGE;
	h->size = (size_t)(at % (off_t)PAGE) * PAGE;
	h->file = type == STALLOC_CU_HANDLE_FD ? fcntl(fd, F_DUPFD_CLOEXEC, 0) :
						 fd;
	*handle = (stalloc_cu_handle)h->reuse << 32 | i;
	return leave(h->file < 0 ? STALLOC_CU_OUT_OF_MEMORY : 0);
}

int cuMemExportToShareableHandle(void *out, stalloc_cu_handle handle, int type,
				 unsigned long long flags)
{
	BEGIN(cuMemExportToShareableHandle, NEED_INIT);
	uint32_t i = handle_find(handle);
	if (out == NULL || i == 0 || flags != 0 ||
	    (type != STALLOC_CU_HANDLE_FD && type != STALLOC_CU_HANDLE_FABRIC) ||
	    (handles[i - 1].types & type) == 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	struct handle *h = &handles[i - 1];
	if (type == STALLOC_CU_HANDLE_FD) {
		*(int *)out = export(h);
	} else {
		struct name name = {getpid(), memfd,
				    h->at | (int64_t)(h->size / PAGE)};
		memset(out, 0, 64);
		memcpy(out, &name, sizeof name);
		h->exported = 1;
	}
	return leave(type == STALLOC_CU_HANDLE_FD && *(int *)out < 0
			     ? STALLOC_CU_OUT_OF_MEMORY
			     : 0);
}

void handle_reset(void)
{
	if (memfd >= 0 && ftruncate(memfd, 0) != 0)
		fatal("memfd", "cannot be emptied");
	handle_count = idle_count = 0;
	memfd_end = 0;
}

long handle_live(void)
{
	long held = 0;
	for (uint32_t i = 0; i < handle_count; i++)
		held += handles[i].held;
	return held;
}
