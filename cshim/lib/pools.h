/* Private pools, in two files: who uses each (pools.c), and which one a request belongs to
 * (openings.c). One lock guards both. */
#ifndef STALLOC_POOLS_H
#define STALLOC_POOLS_H

#include <pthread.h>

#include "deferred.h"

/* A pool that something uses. */
struct pool {
	struct pool *next;
	uint64_t id0, id1;
	int device;
	unsigned uses;	 /* graphs, MemPools, and openings */
	unsigned flights; /* requests: the last of them, or the last use, ends the record */
	unsigned failed; /* captures whose use was ended here */
	bool captured;	 /* a graph remembers its addresses, and the engine knows */
};
extern pthread_mutex_t stalloc_pools_lock;

/* Filters may throw. */
static inline void stalloc_unlock_pools(pthread_mutex_t **m) { pthread_mutex_unlock(*m); }
#define HOLD_POOLS_LOCK                                    \
	__attribute__((cleanup(stalloc_unlock_pools)))     \
	pthread_mutex_t *held_ = &stalloc_pools_lock;      \
	pthread_mutex_lock(held_)

uint64_t stalloc_pool_key(uint64_t id0, uint64_t id1);

/* The following are called with the lock held. */

/* The engine frees what a pool has left, waiting for the device, or later if a stream is captured.
 * The lock keeps others from beginning the pool again meanwhile. */
void stalloc_free_pool(int device, uint64_t pool);
/* Where a pool is, or would be, in the list. */
struct pool **stalloc_pool_find(int device, uint64_t id0, uint64_t id1);
/* Adds a use of a pool; false: the host has no memory. */
bool stalloc_pool_use(int device, uint64_t id0, uint64_t id1);
/* Ends a use of a pool, if there is one (NULL: there is no pool); of the last, frees the pool. */
void stalloc_pool_end_use(struct pool *p);

#endif
