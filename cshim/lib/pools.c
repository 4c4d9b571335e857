/* The private pools that something uses, and whether graphs remember their addresses. */
#include <stdlib.h>
#include <string.h>

#include "pools.h"

static struct pool *pools;
static _Atomic bool unsettled[STALLOC_MAX_DEVICES]; /* a pool was released during a capture */
pthread_mutex_t stalloc_pools_lock = PTHREAD_MUTEX_INITIALIZER;

/* The engine's number of a pool. 0 is the default pool, and numbers from 2^63 on are regions. Ids
 * larger than PyTorch's are hashed into a range that no other pools use. */
uint64_t stalloc_pool_key(uint64_t id0, uint64_t id1) {
	if (id0 < 1u << 30 && id1 <= UINT32_MAX) return id0 << 32 | id1;
	uint64_t x = id0 * 0x9E3779B97F4A7C15u;
	x = (x ^ x >> 32 ^ id1) * 0xBF58476D1CE4E5B9u;
	x = (x ^ x >> 29) * 0x94D049BB133111EBu;
	return (x ^ x >> 32) >> 2 | (uint64_t)1 << 62;
}

struct pool **stalloc_pool_find(int device, uint64_t id0, uint64_t id1) {
	struct pool **at = &pools;
	while (*at && ((*at)->device != device || (*at)->id0 != id0 || (*at)->id1 != id1))
		at = &(*at)->next;
	return at;
}

bool stalloc_pool_use(int device, uint64_t id0, uint64_t id1) {
	struct pool **at = stalloc_pool_find(device, id0, id1);
	if (!*at && (*at = calloc(1, sizeof **at)))
		**at = (struct pool){.id0 = id0, .id1 = id1, .device = device};
	if (*at) (*at)->uses++;
	return *at != NULL;
}

void stalloc_pool_ids(int device, uint64_t pool, uint64_t ids[2]) {
	ids[0] = pool >> 32, ids[1] = pool & UINT32_MAX;
	if (pool < (uint64_t)1 << 62) return;
	ids[0] = ids[1] = 0;
	if (pool >> 63) return;
	HOLD_POOLS_LOCK;
	for (const struct pool *p = pools; p; p = p->next)
		if (p->device == device && stalloc_pool_key(p->id0, p->id1) == pool)
			ids[0] = p->id0, ids[1] = p->id1;
}

void stalloc_free_pool(int device, uint64_t pool) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	stalloc_plain_release_graphs(device, pool);
	if (!e) return;
	if (atomic_load(&stalloc_devices[device].captures) > 0)
		atomic_store(&unsettled[device], true);
	e->trim(device, pool);
	stalloc_drain_now(&stalloc_devices[device]);
}

/* A request in flight may bring the pool back: then it is freed again when the request is done. */
static void free_if_unused(struct pool *p) {
	if (p->uses > 0) return;
	stalloc_free_pool(p->device, stalloc_pool_key(p->id0, p->id1));
	p->captured = false;
	p->failed = 0;
	if (p->flights > 0) return;
	*stalloc_pool_find(p->device, p->id0, p->id1) = p->next;
	free(p);
}

void stalloc_pool_end_use(struct pool *p) {
	if (!p || p->uses == 0) return;
	p->uses--;
	free_if_unused(p);
}

void stalloc_settle_pools(void) {
	HOLD_POOLS_LOCK;
	for (int i = 0; i < STALLOC_MAX_DEVICES; i++)
		if (atomic_load(&unsettled[i]) && atomic_load(&stalloc_devices[i].captures) == 0) {
			atomic_store(&unsettled[i], false);
			stalloc_free_pool(i, STALLOC_RELEASED);
		}
}

void stalloc_retain_pool(int device, uint64_t id0, uint64_t id1) {
	if (!stalloc_ready() || !stalloc_is_device(device)) return;
	HOLD_POOLS_LOCK;
	stalloc_pool_use(device, id0, id1);
}

int stalloc_pool_uses(int device, uint64_t id0, uint64_t id1) {
	if (!*stalloc_alive) return 0;
	HOLD_POOLS_LOCK;
	const struct pool *p = *stalloc_pool_find(device, id0, id1);
	return p ? (int)p->uses : 0;
}

int stalloc_captures(int device) {
	return stalloc_is_device(device) ? (int)atomic_load(&stalloc_devices[device].captures) : 0;
}

int stalloc_serves_pools(int device) {
	const char *policy = stalloc_conf("pool");
	bool gmlake = policy && !strcmp(policy, "gmlake");
	return stalloc_ready() && stalloc_is_device(device) && !gmlake && stalloc_engine(device);
}

void stalloc_release_pool(int device, uint64_t id0, uint64_t id1) {
	if (!*stalloc_alive || !stalloc_is_device(device)) return;
	HOLD_POOLS_LOCK;
	stalloc_pool_end_use(*stalloc_pool_find(device, id0, id1));
}

void stalloc_empty_pool(int device, uint64_t id0, uint64_t id1) {
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!*stalloc_alive || !e || !stalloc_is_device(device)) return;
	e->trim(device, stalloc_pool_uses(device, id0, id1) ? STALLOC_REGIONS : STALLOC_RELEASED);
	stalloc_drain_now(&stalloc_devices[device]);
}

void stalloc_capture_pool(int device, uint64_t id0, uint64_t id1) {
	if (!*stalloc_alive || !stalloc_is_device(device)) return;
	const struct stalloc_engine *e = stalloc_engine(device);
	if (e) e->capture(device, stalloc_pool_key(id0, id1));
	HOLD_POOLS_LOCK;
	struct pool *p = *stalloc_pool_find(device, id0, id1);
	if (p) p->captured = true;
}

void stalloc_pool_leave(struct stalloc_flight *f) {
	if (STALLOC_LIKELY(!f->of)) return;
	HOLD_POOLS_LOCK;
	f->of->flights--;
	free_if_unused(f->of);
}
