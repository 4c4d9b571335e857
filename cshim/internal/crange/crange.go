// Package crange drives the quick cases of cshim/range.h from Go, so that a test can hold
// them to onerange.Engine array by array. Nothing else uses it.
package crange

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../..
#include "range.h"

static uint64_t units_of(uint64_t asked) { return asked ? (asked + STALLOC_GRAIN - 1) / STALLOC_GRAIN : 1; }

static uint64_t quick_alloc(struct stalloc_range *r, uint64_t stream, uint64_t wish, uint64_t asked) {
	uint32_t heap = range_open(r) ? range_heap_of(r, stream) : 0, g;
	uint64_t n = units_of(asked), less = n * STALLOC_GRAIN - asked, at = 0;
	if (heap == 0) return 0;
	struct range_space *s = range_space_of(r, heap, n);
	if (wish == 0) {
		at = range_alloc(r, s, n, less);
	} else if (range_room(r) && (g = gap_holding(r, s, wish, n)) != 0) {
		at = wish;
		range_enter(r, s, g, at, n, less);
		range_count_in(r, s, n);
		r->now.wished++;
		s->version++;
	}
	return at ? r->base + at * STALLOC_GRAIN : 0;
}

static int quick_free(struct stalloc_range *r, uint64_t addr, uint64_t *rounded, uint64_t *asked) {
	uint64_t offset = addr - r->base;
	uint32_t b = addr >= r->base && offset % STALLOC_GRAIN == 0 && range_open(r) ? range_block_at(r, offset / STALLOC_GRAIN) : 0;
	if (b == 0) return 0;
	*rounded = r->blocks[b].size * STALLOC_GRAIN;
	*asked = *rounded - r->blocks[b].less;
	range_free(r, b);
	return 1;
}
*/
import "C"

import (
	"stalloc/cshim/internal/loan"
	"stalloc/internal/mem"
)

func of(r *loan.Range) *C.struct_stalloc_range { return (*C.struct_stalloc_range)(r.Address()) }

// Alloc serves a request as a C thread does, where it is wished if that is not zero. Zero:
// the engine must.
func Alloc(r *loan.Range, stream mem.StreamID, wish, asked mem.Bytes) mem.Addr {
	return mem.Addr(C.quick_alloc(of(r), C.uint64_t(stream), C.uint64_t(wish/mem.Grain), C.uint64_t(asked)))
}

// Free frees a block as a C thread does. False: the engine must.
func Free(r *loan.Range, at mem.Addr) (rounded, asked mem.Bytes, done bool) {
	var n, a C.uint64_t
	done = C.quick_free(of(r), C.uint64_t(at), &n, &a) != 0
	return mem.Bytes(n), mem.Bytes(a), done
}
