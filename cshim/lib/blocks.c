/* Questions of PyTorch's adapter about live blocks, and its way to free them. */
#include "deferred.h"

static bool known(int device) {
	return *stalloc_alive && stalloc_is_device(device);
}

/* Its pool is the engine's number: the ids cannot be looked up under the device's lock. */
static struct stalloc_block block_of(const struct stalloc_device *d, const struct index_block *b) {
	return (struct stalloc_block){.ptr = (void *)(uintptr_t)(d->base + b->at * STALLOC_GRAIN),
				      .asked = (size_t)b->size * STALLOC_GRAIN - b->slack,
				      .stream = (void *)(uintptr_t)d->index.arenas[b->arena].stream,
				      .device = d->ordinal,
				      .state = b->state == INDEX_PENDING ? STALLOC_PENDING
									 : STALLOC_LIVE,
				      .pool = {d->index.arenas[b->arena].pool}};
}

/* The pool of an arena, if it is a private one and no region. */
static uint64_t private_pool(const struct index_arena *a) { return a->pool >> 63 ? 0 : a->pool; }

/* Lists what is idle of private pools. */
static size_t idle_pieces(const struct stalloc_device *d, struct stalloc_block *out, size_t n) {
	const struct stalloc_index *x = &d->index;
	size_t all = 0;
	for (uint32_t s = 0; s < x->arena_n; s++) {
		const struct index_arena *a = &x->arenas[s];
		if (!private_pool(a)) continue;
		for (uint32_t g = gap_after(x, a, 0, 0); g;
		     g = gap_after(x, a, gap_size(&x->gaps[g]), gap_start(&x->gaps[g]))) {
			const struct index_block gap = {.at = gap_start(&x->gaps[g]),
							.size = (uint32_t)gap_size(&x->gaps[g]),
							.arena = s};
			if (all++ >= n) continue;
			out[all - 1] = block_of(d, &gap);
			out[all - 1].state = STALLOC_IDLE;
		}
	}
	return all;
}

/* The device whose address range contains an address; NULL: none. */
static struct stalloc_device *device_of(uint64_t addr) {
	for (int i = 0, n = STALLOC_RELAXED(stalloc_devices_seen); i < n; i++) {
		struct stalloc_device *d = &stalloc_devices[i];
		uint64_t window = __atomic_load_n(&d->window, __ATOMIC_ACQUIRE);
		if (addr - __atomic_load_n(&d->base, __ATOMIC_RELAXED) < window) return d;
	}
	return NULL;
}

int stalloc_find(void *ptr, struct stalloc_block *out) {
	uint64_t addr = (uint64_t)(uintptr_t)ptr, start = 0, size = 0;
	struct stalloc_device *d = device_of(addr);
	const struct stalloc_engine *e = stalloc_engine_if_open();
	if (!*stalloc_alive) return STALLOC_ERR_ARGUMENT;
	if (!d) return stalloc_plain_find(addr, false, out) ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
	stalloc_lock(d);
	stalloc_drain(d);
	bool mine = d->index.starts, found = false; /* not mine: GMLake has the blocks */
	uint64_t offset = addr - d->base;
	uint32_t b = offset % STALLOC_GRAIN == 0 ? start_get(&d->index, offset / STALLOC_GRAIN) : 0;
	if ((found = b != 0 && d->index.blocks[b].state != INDEX_PENDING))
		*out = block_of(d, &d->index.blocks[b]);
	stalloc_unlock_and_drain(d);
	if (found) stalloc_pool_ids(d->ordinal, out->pool[0], out->pool);
	if (!mine && e && e->base(addr, &start, &size) == STALLOC_OK && (found = start == addr))
		*out = (struct stalloc_block){.ptr = ptr, .asked = size, .device = d->ordinal};
	return found ? STALLOC_OK : STALLOC_ERR_ARGUMENT;
}

int stalloc_release(void *ptr) {
	uint64_t addr = (uint64_t)(uintptr_t)ptr;
	struct stalloc_block plain;
	struct stalloc_device *d = device_of(addr);
	if (!*stalloc_alive) return STALLOC_OK;
	if (!d && !stalloc_plain_find(addr, false, &plain)) return STALLOC_ERR_ARGUMENT;
	stalloc_free_at(d ? d : &stalloc_devices[plain.device], addr);
	return STALLOC_OK;
}

size_t stalloc_snapshot(int device, struct stalloc_meters *out, struct stalloc_block *blocks,
			size_t n) {
	size_t all = 0;
	*out = (struct stalloc_meters){0};
	if (!known(device)) return 0;
	struct stalloc_device *d = &stalloc_devices[device];
	stalloc_drain_now(d);
	stalloc_lock(d);
	*out = d->counts.now;
	for (uint32_t b = 1; b <= d->index.block_n; b++) {
		const struct index_block *c = &d->index.blocks[b];
		if (c->size == 0 || (c->state == INDEX_PENDING &&
				     !private_pool(&d->index.arenas[c->arena])))
			continue;
		if (all++ < n) blocks[all - 1] = block_of(d, c);
	}
	all += idle_pieces(d, blocks + (all < n ? all : n), all < n ? n - all : 0);
	stalloc_unlock_and_drain(d);
	for (size_t i = 0; i < all && i < n; i++)
		stalloc_pool_ids(device, blocks[i].pool[0], blocks[i].pool);
	return all +
	       stalloc_plain_blocks(device, blocks + (all < n ? all : n), all < n ? n - all : 0);
}

size_t stalloc_pools_held(int device, uint64_t (*pools)[3], size_t room) {
	size_t all = 0;
	if (!known(device)) return 0;
	struct stalloc_device *d = &stalloc_devices[device];
	stalloc_lock(d);
	for (uint32_t s = 0; s < d->index.arena_n; s++) {
		const struct index_arena *a = &d->index.arenas[s];
		const uint64_t bytes = (uint64_t)(a->free + a->load) * STALLOC_GRAIN;
		size_t i = 0;
		if (!private_pool(a) || !bytes) continue;
		while (i < all && i < room && pools[i][0] != a->pool) i++;
		if (i == all && all++ < room) pools[i][0] = a->pool, pools[i][2] = 0;
		if (i < room) pools[i][2] += bytes;
	}
	stalloc_unlock_and_drain(d);
	for (size_t i = 0; i < all && i < room; i++)
		stalloc_pool_ids(device, pools[i][0], pools[i]);
	return all;
}

void stalloc_set_other(int device, const struct stalloc_meters *now, int reset) {
	if (!known(device)) return;
	struct stalloc_device *d = &stalloc_devices[device];
	stalloc_lock(d);
	STALLOC_PUT(d->counts.stale, false);
	for (int i = 0; i < STALLOC_POOLS * STALLOC_METERS; i++) {
		const struct stalloc_meter *told = &now->of[i / STALLOC_METERS][i % STALLOC_METERS];
		struct stalloc_meter *m = &d->counts.now.of[i / STALLOC_METERS][i % STALLOC_METERS];
		m->other = told->other;
		if (reset) m->peak = 0;
		if (told->peak > m->peak) m->peak = told->peak;
	}
	stalloc_update_peaks(&d->counts);
	stalloc_unlock_and_drain(d);
}

void stalloc_set_beside(int device, const struct stalloc_meters *now, int reset) {
	stalloc_set_other(device, now, reset);
}

int stalloc_stale(int device) {
	return known(device) && STALLOC_RELAXED(stalloc_devices[device].counts.stale);
}
