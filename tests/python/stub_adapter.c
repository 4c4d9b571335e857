/* A test double of the compiled adapter: the functions that Python calls. The
 * macros TORCH, REFUSES and MOVES say how it behaves. */
#include <stdio.h>
#include <string.h>

#ifndef TORCH
#define TORCH "2.11.0"
#endif

static char library[512];
static void *moved;

const char *stub_library(void) { return library; }
void *stub_moved(void) { return moved; }

static int closes;
int stub_closes(void) { return closes; }
void stalloc_adapter_close(void) { closes++; }

static int pools;
void stub_set_pools(int n) { pools = n; }
int stalloc_adapter_open_pools(void) { return pools; }

static unsigned long long held[8][3];
static size_t holds;
void stub_hold(unsigned long long first, unsigned long long second, unsigned long long bytes)
{
	unsigned long long pool[] = {first, second, bytes};
	memcpy(held[holds++], pool, sizeof(pool));
}
size_t stalloc_adapter_held(int device, unsigned long long (*pools)[3], size_t room)
{
	if (device) return 0;
	memcpy(pools, held, (room < holds ? room : holds) * sizeof(held[0]));
	return holds;
}

const char *stalloc_adapter_torch(void) { return TORCH; }

int stalloc_adapter_install(const char *path, char *text, size_t length)
{
#ifdef REFUSES
	(void)path;
	snprintf(text, length, "PyTorch's allocator is cudaMallocAsync");
	return -1;
#else
	(void)text;
	(void)length;
	snprintf(library, sizeof(library), "%s", path);
	return 0;
#endif
}

int stalloc_adapter_make_shareable(void *storage, char *text, size_t length)
{
	snprintf(text, length, "no room to move it");
	moved = storage;
	return storage ? 1 : -1;
}
