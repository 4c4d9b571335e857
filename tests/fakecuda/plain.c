/* Plain allocation, and the copies that tests check bytes with. */
#define _GNU_SOURCE
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct ranges blocks, pinned;

#define POISON 0xCB

/* Whole chunks are aligned to their size, as the real driver's are. */
static int map_block(size_t size, uintptr_t *addr)
{
	size_t align = size > PAGE / 2 ? PAGE : 4096;
	size_t room = (size + align - 1) / align * align;
	char *start = mmap(NULL, room + align, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		return 0;
	size_t head = (align - (uintptr_t)start % align) % align;
	if (head > 0)
		munmap(start, head);
	if (align > head)
		munmap(start + head + room, align - head);
	if (settings.poison)
		memset(start + head, POISON, size);
	*addr = (uintptr_t)(start + head);
	return 1;
}

static void unmap_block(const struct range *b)
{
	size_t align = b->size > PAGE / 2 ? PAGE : 4096;
	munmap((void *)b->addr, (b->size + align - 1) / align * align);
}

int cuMemAlloc_v2(stalloc_cu_addr *addr, size_t size)
{
	BEGIN(cuMemAlloc, NEED_SAFE);
	int device = current_device();
	if (addr == NULL || size == 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (!usage_take_plain(device, size))
		return leave(STALLOC_CU_OUT_OF_MEMORY);
	uintptr_t at;
	if (!map_block(size, &at)) {
		usage_give_plain(device, size);
		return leave(STALLOC_CU_OUT_OF_MEMORY);
	}
	ranges_add(&blocks, (struct range){
				    .addr = at, .size = size, .device = device});
	*addr = at;
	return leave(0);
}

int cuMemFree_v2(stalloc_cu_addr addr)
{
	BEGIN(cuMemFree, NEED_SAFE);
	if (addr == 0)
		return leave(0);
	struct range *b = ranges_find(&blocks, (uintptr_t)addr);
	if (b == NULL || b->addr != addr)
		return leave(STALLOC_CU_INVALID_VALUE);
	unmap_block(b);
	usage_give_plain(b->device, b->size);
	ranges_drop(&blocks, b);
	return leave(0);
}

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	BEGIN(cuMemGetInfo, NEED_CONTEXT);
	if (free_bytes == NULL || total == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	*total = (size_t)settings.capacity;
	*free_bytes = *total - usage(current_device());
	return leave(0);
}

static int usable(stalloc_cu_addr addr, size_t size)
{
	struct range *b = ranges_find(&blocks, (uintptr_t)addr);
	if (b != NULL)
		return size <= b->size - ((uintptr_t)addr - b->addr);
	return accessible((uintptr_t)addr, size, current_device()) == size;
}

int cuMemcpyDtoH_v2(void *to, stalloc_cu_addr from, size_t size)
{
	BEGIN(cuMemcpyDtoH, NEED_CONTEXT);
	if (!usable(from, size))
		return leave(STALLOC_CU_INVALID_VALUE);
	memcpy(to, (const void *)(uintptr_t)from, size);
	return leave(0);
}

int cuMemcpyHtoD_v2(stalloc_cu_addr to, const void *from, size_t size)
{
	BEGIN(cuMemcpyHtoD, NEED_CONTEXT);
	if (!usable(to, size))
		return leave(STALLOC_CU_INVALID_VALUE);
	memcpy((void *)(uintptr_t)to, from, size);
	return leave(0);
}

int cuMemHostRegister_v2(void *at, size_t size, unsigned int flags)
{
	BEGIN(cuMemHostRegister, NEED_CONTEXT);
	uintptr_t addr = (uintptr_t)at;
	if (at == NULL || size == 0 || flags != 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (ranges_find(&pinned, addr) || ranges_find(&pinned, addr + size - 1))
		return leave(STALLOC_CU_ALREADY_PINNED);
	ranges_add(&pinned, (struct range){.addr = addr, .size = size});
	return leave(0);
}

int cuMemHostUnregister(void *at)
{
	BEGIN(cuMemHostUnregister, NEED_CONTEXT);
	struct range *r = ranges_find(&pinned, (uintptr_t)at);
	if (r == NULL || r->addr != (uintptr_t)at)
		return leave(STALLOC_CU_NOT_PINNED);
	ranges_drop(&pinned, r);
	return leave(0);
}

int cuMemsetD8Async(stalloc_cu_addr addr, unsigned char value, size_t size,
		    void *stream)
{
	BEGIN(cuMemsetD8Async, NEED_CONTEXT);
	(void)stream; /* the work is done at once */
	if (!usable(addr, size))
		return leave(STALLOC_CU_INVALID_VALUE);
	memset((void *)(uintptr_t)addr, value, size);
	return leave(0);
}

void plain_reset(void)
{
	for (size_t i = 0; i < blocks.count; i++)
		unmap_block(&blocks.list[i]);
	free(blocks.list);
	memset(&blocks, 0, sizeof blocks);
	free(pinned.list);
	memset(&pinned, 0, sizeof pinned);
}

long plain_live(void)
{
	return (long)blocks.count;
}

long pinned_live(void)
{
	return (long)pinned.count;
}
