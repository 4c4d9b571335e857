/* Reservations are inaccessible mappings; mapping a handle puts its part of the
 * memfd there, and access rights are the mapping's protection. */
#define _GNU_SOURCE
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_RESERVE ((size_t)1 << 46)

struct page {
	uint32_t handle;              /* index + 1, 0: unmapped */
	uint32_t part;                /* which of the handle's pages */
	unsigned char at[MAX_DEVICES]; /* access flags by device */
};
static struct ranges reservations;
static long mapping_count;

/* The pages of a range of whole pages inside one reservation, or NULL. */
static struct page *pages_of(uintptr_t addr, size_t size, struct range **in)
{
	if (size == 0 || size % PAGE != 0 || addr % PAGE != 0)
		return NULL;
	struct range *r = ranges_find(&reservations, addr);
	if (r == NULL || size > r->size - (addr - r->addr))
		return NULL;
	*in = r;
	return &r->pages[(addr - r->addr) / PAGE];
}

/* Whether all pages are mapped and no mapping goes on beyond them. */
static int whole_mappings(const struct page *pages, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (pages[i].handle == 0)
			return 0;
	const struct page *last = &pages[count - 1];
	return pages[0].part == 0 &&
	       (last->part + 1) * PAGE == handle_size(last->handle);
}

/* A mapping with nothing behind it, anywhere or at a fixed place. */
static void *nothing(void *at, size_t size)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	return mmap(at, size, PROT_NONE, at != NULL ? flags | MAP_FIXED : flags,
		    -1, 0);
}

static int reserve(stalloc_cu_addr *addr, size_t size, size_t alignment)
{
	char *start = nothing(NULL, size + alignment);
	if (start == MAP_FAILED)
		return STALLOC_CU_OUT_OF_MEMORY;
	size_t head = (alignment - (uintptr_t)start % alignment) % alignment;
	if (head > 0)
		munmap(start, head);
	munmap(start + head + size, alignment - head);
	struct page *pages = calloc(size / PAGE, sizeof *pages);
	if (pages == NULL) {
		munmap(start + head, size);
		return STALLOC_CU_OUT_OF_MEMORY;
	}
	*addr = (uintptr_t)(start + head);
	ranges_add(&reservations, (struct range){.addr = (uintptr_t)*addr,
						 .size = size,
						 .pages = pages});
	return 0;
}

int cuMemAddressReserve(stalloc_cu_addr *addr, size_t size, size_t alignment,
			stalloc_cu_addr hint, unsigned long long flags)
{
	BEGIN(cuMemAddressReserve, NEED_INIT);
	(void)hint; /* a hint that the driver may ignore, too */
	if (addr == NULL || size == 0 || size % PAGE != 0 || flags != 0 ||
	    (alignment & (alignment - 1)) != 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (size > MAX_RESERVE)
		return leave(STALLOC_CU_OUT_OF_MEMORY);
	return leave(reserve(addr, size, alignment > PAGE ? alignment : PAGE));
}

int cuMemAddressFree(stalloc_cu_addr addr, size_t size)
{
	BEGIN(cuMemAddressFree, NEED_INIT);
	struct range *r = ranges_find(&reservations, (uintptr_t)addr);
	if (r == NULL || r->addr != addr || r->size != size || r->mapped > 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	munmap((void *)r->addr, r->size);
	free(r->pages);
	ranges_drop(&reservations, r);
	return leave(0);
}

int cuMemMap(stalloc_cu_addr addr, size_t size, size_t offset,
	     stalloc_cu_handle handle, unsigned long long flags)
{
	BEGIN(cuMemMap, NEED_INIT);
	if (size == 0 || addr % PAGE != 0 || flags != 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	uint32_t i = handle_find(handle);
	if (i == 0)
		return leave(STALLOC_CU_INVALID_VALUE);
	if (offset != 0 || size != handle_size(i)) /* mapped whole or not */
		return leave(STALLOC_CU_NOT_SUPPORTED);
	struct range *r;
	struct page *p = pages_of((uintptr_t)addr, size, &r);
	for (size_t n = 0; p != NULL && n < size / PAGE; n++)
		if (p[n].handle != 0)
			p = NULL;
	if (p == NULL)
		return leave(STALLOC_CU_INVALID_VALUE);
	handle_map(i, (void *)(uintptr_t)addr);
	for (size_t n = 0; n < size / PAGE; n++) {
		p[n].handle = i;
		p[n].part = (uint32_t)n;
	}
	r->mapped++;
	mapping_count++;
	return leave(0);
}

int cuMemUnmap(stalloc_cu_addr addr, size_t size)
{
	BEGIN(cuMemUnmap, NEED_INIT);
	struct range *r;
	struct page *p = pages_of((uintptr_t)addr, size, &r);
	if (p == NULL || !whole_mappings(p, size / PAGE))
		return leave(STALLOC_CU_INVALID_VALUE);
	if (nothing((void *)(uintptr_t)addr, size) == MAP_FAILED)
		fatal("mmap", "cannot unmap a range");
	for (size_t i = 0; i < size / PAGE; i++) {
		if (p[i].part == 0) {
			handle_unmapped(p[i].handle);
			r->mapped--;
			mapping_count--;
		}
		memset(&p[i], 0, sizeof p[i]);
	}
	return leave(0);
}

/* The processor is every device at once: a page is as accessible to it as to
 * the device that may do most. */
static int protection(const struct page *p)
{
	int best = PROT_NONE;
	for (int i = 0; i < MAX_DEVICES; i++) {
		if (p->at[i] == STALLOC_CU_ACCESS_READ_WRITE)
			return PROT_READ | PROT_WRITE;
		if (p->at[i] != 0)
			best = PROT_READ;
	}
	return best;
}

int cuMemSetAccess(stalloc_cu_addr addr, size_t size,
		   const struct stalloc_cu_access *access, size_t count)
{
	BEGIN(cuMemSetAccess, NEED_INIT);
	struct range *r;
	struct page *p = pages_of((uintptr_t)addr, size, &r);
	if (access == NULL || count == 0 || p == NULL ||
	    !whole_mappings(p, size / PAGE))
		return leave(STALLOC_CU_INVALID_VALUE);
	for (size_t i = 0; i < count; i++)
		if (access[i].location.type != STALLOC_CU_LOCATION_DEVICE ||
		    !device_exists(access[i].location.id) ||
		    (access[i].flags != 0 && access[i].flags != 1 &&
		     access[i].flags != STALLOC_CU_ACCESS_READ_WRITE))
			return leave(STALLOC_CU_INVALID_VALUE);
	for (size_t n = 0; n < size / PAGE; n++) {
		for (size_t i = 0; i < count; i++)
			p[n].at[access[i].location.id] =
				(unsigned char)access[i].flags;
		if (mprotect((char *)(uintptr_t)addr + n * PAGE, PAGE,
			     protection(&p[n])) != 0)
			fatal("mprotect", "cannot set access rights");
	}
	return leave(0);
}

size_t accessible(uintptr_t addr, size_t size, int device)
{
	struct range *r = ranges_find(&reservations, addr);
	if (r == NULL)
		return 0;
	size_t good = 0, at = addr - r->addr;
	while (good < size && at < r->size &&
	       r->pages[at / PAGE].at[device] == STALLOC_CU_ACCESS_READ_WRITE) {
		size_t step = PAGE - at % PAGE;
		good += step;
		at += step;
	}
	return good < size ? good : size;
}

void memory_reset(void)
{
	for (size_t i = 0; i < reservations.count; i++) {
		munmap((void *)reservations.list[i].addr,
		       reservations.list[i].size);
		free(reservations.list[i].pages);
	}
	free(reservations.list);
	memset(&reservations, 0, sizeof reservations);
	mapping_count = 0;
}

long mapping_live(void)
{
	return mapping_count;
}

long reservation_live(void)
{
	return (long)reservations.count;
}
