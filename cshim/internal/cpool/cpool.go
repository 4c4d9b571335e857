// Package cpool drives the quick cases of cshim/pool.h from Go, so that a test can
// hold them to engine.Engine array by array. Nothing else uses it.
package cpool

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../..
#include "pool.h"

static uint64_t quick_alloc(void *at, uint64_t stream, uint64_t asked) {
	struct stalloc_pool *p = at;
	if (!pool_try(p)) return 0;
	uint32_t heap = pool_heap_of(p, stream);
	uint64_t rounded = asked ? (asked + STALLOC_GRAIN - 1) / STALLOC_GRAIN * STALLOC_GRAIN : STALLOC_GRAIN;
	uint64_t addr = heap ? pool_alloc(p, heap, rounded, asked) : 0;
	pool_leave(p);
	return addr;
}

static int quick_free(void *at, uint64_t stream, uint64_t addr, uint64_t *rounded, uint64_t *asked) {
	struct stalloc_pool *p = at;
	if (!pool_try(p)) return 0;
	int done = pool_free(p, stream, addr, rounded, asked);
	pool_leave(p);
	return done;
}
*/
import "C"

import (
	"stalloc/cshim/internal/loan"
	"stalloc/internal/mem"
)

// Alloc serves a request as a C thread does. Zero: the engine must.
func Alloc(p *loan.Pool, stream mem.StreamID, asked mem.Bytes) mem.Addr {
	return mem.Addr(C.quick_alloc(p.Address(), C.uint64_t(stream), C.uint64_t(asked)))
}

// Free frees a block as a C thread does. False: the engine must.
func Free(p *loan.Pool, stream mem.StreamID, at mem.Addr) (rounded, asked mem.Bytes, done bool) {
	var r, a C.uint64_t
	done = C.quick_free(p.Address(), C.uint64_t(stream), C.uint64_t(at), &r, &a) != 0
	return mem.Bytes(r), mem.Bytes(a), done
}
