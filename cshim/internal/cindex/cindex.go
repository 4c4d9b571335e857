// Package cindex gives the engine the index of a training process, which is in C
// (cshim/fast/index.h).
package cindex

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../../fast
#include "index.h"

struct piece { uint64_t lo, hi; };

static struct piece piece_of(const struct stalloc_index *x, uint32_t g) {
	return g ? (struct piece){gap_start(&x->gaps[g]), gap_end(&x->gaps[g])} : (struct piece){0};
}

static struct piece best_fit(const struct stalloc_index *x, uint32_t s, uint64_t n) {
	return s < x->arena_n ? piece_of(x, gap_best_fit(x, &x->arenas[s], n)) : (struct piece){0};
}

static struct piece gap_with(const struct stalloc_index *x, uint32_t s, uint64_t at) {
	return s < x->arena_n ? piece_of(x, gap_holding(x, &x->arenas[s], at, 1)) : (struct piece){0};
}

// The next gaps by (size, place), at most most of them; returns how many.
static int gaps_after(const struct stalloc_index *x, uint32_t s, struct piece after,
	struct piece *out, int most) {
	int n = 0;
	for (; s < x->arena_n && n < most; n++) {
		after = piece_of(x, gap_after(x, &x->arenas[s], after.hi - after.lo, after.lo));
		if (after.hi == 0) break;
		out[n] = after;
	}
	return n;
}

static bool take(struct stalloc_index *x, uint32_t s, uint64_t lo, uint64_t hi) {
	if (!index_reserve(x)) return false;
	index_take(x, &x->arenas[s], gap_holding(x, &x->arenas[s], lo, hi - lo), lo, hi, 0);
	return true;
}

static bool add_gap(struct stalloc_index *x, uint32_t s, uint64_t lo, uint64_t hi) {
	uint32_t p, n;
	if (!index_reserve(x)) return false;
	gap_around(x, &x->arenas[s], lo, &p, &n);
	index_add_gap(x, &x->arenas[s], lo, hi, p, n);
	return true;
}

static bool put(struct stalloc_index *x, struct index_block b) {
	if (!index_reserve(x)) return false;
	index_put(x, b, b.in_view ? 0 : gap_holding(x, &x->arenas[b.arena], b.at, b.size));
	return true;
}

static void drop(struct stalloc_index *x, uint64_t at) { index_drop(x, start_get(x, at)); }
static void mark(struct stalloc_index *x, uint64_t at, uint8_t state) {
	index_mark(x, &x->blocks[start_get(x, at)], state);
}

static struct index_block block_at(const struct stalloc_index *x, uint64_t at) {
	uint32_t b = at >> INDEX_PLACE_BITS == 0 ? start_get(x, at) : 0;
	return b ? x->blocks[b] : (struct index_block){0};
}
*/
import "C"

import (
	"iter"
	"unsafe"

	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// Index implements index.Index. A method panics if the host has no memory for the index: then the
// engine is broken, and plain driver allocations serve the program.
type Index struct{ c *C.struct_stalloc_index }

// At returns the index of the struct stalloc_index at an address. A zeroed one is empty.
func At(address unsafe.Pointer) *Index { return &Index{(*C.struct_stalloc_index)(address)} }

func (x *Index) must(done C.bool) {
	if !done {
		panic("the host has no memory for the index of the device's memory")
	}
}

func gap(p C.struct_piece) index.Gap {
	return index.Gap{Lo: index.Unit(p.lo), Hi: index.Unit(p.hi)}
}

func block(b C.struct_index_block) index.Block {
	return index.Block{
		At: index.Unit(b.at), Size: index.Unit(b.size), Arena: uint32(b.arena),
		Step: uint32(b.step), Slack: uint16(b.slack), State: index.State(b.state),
		InView: bool(b.in_view),
	}
}

func (x *Index) Fit(s uint32, n index.Unit) index.Gap {
	return gap(C.best_fit(x.c, C.uint32_t(s), C.uint64_t(n)))
}

func (x *Index) Gap(s uint32, at index.Unit) index.Gap {
	return gap(C.gap_with(x.c, C.uint32_t(s), C.uint64_t(at)))
}

func (x *Index) Gaps(s uint32) iter.Seq[index.Gap] {
	return func(yield func(index.Gap) bool) {
		var some [64]C.struct_piece // a call of C for each would take longer than the walk
		last := C.struct_piece{}
		for n := len(some); n == len(some); {
			n = int(C.gaps_after(x.c, C.uint32_t(s), last, &some[0], C.int(len(some))))
			for _, p := range some[:n] {
				if !yield(gap(p)) {
					return
				}
				last = p
			}
		}
	}
}

func (x *Index) Take(s uint32, lo, hi index.Unit) {
	x.must(C.take(x.c, C.uint32_t(s), C.uint64_t(lo), C.uint64_t(hi)))
}

func (x *Index) Give(s uint32, lo, hi index.Unit) {
	x.must(C.add_gap(x.c, C.uint32_t(s), C.uint64_t(lo), C.uint64_t(hi)))
}

func (x *Index) Put(b index.Block) {
	x.must(C.put(x.c, C.struct_index_block{
		at: C.uint64_t(b.At), size: C.uint32_t(b.Size), arena: C.uint32_t(b.Arena),
		slack: C.uint16_t(b.Slack), state: C.uint8_t(b.State), in_view: C.bool(b.InView),
	}))
}

func (x *Index) Drop(at index.Unit)                { C.drop(x.c, C.uint64_t(at)) }
func (x *Index) Mark(at index.Unit, s index.State) { C.mark(x.c, C.uint64_t(at), C.uint8_t(s)) }

func (x *Index) Block(at index.Unit) (index.Block, bool) {
	b := C.block_at(x.c, C.uint64_t(at))
	return block(b), b.size != 0
}

func (x *Index) Blocks() iter.Seq[index.Block] {
	return func(yield func(index.Block) bool) {
		for n := C.uint32_t(1); n <= x.c.block_n; n++ {
			b := unsafe.Slice(x.c.blocks, x.c.block_n+1)[n]
			if b.size != 0 && !yield(block(b)) {
				return
			}
		}
	}
}

func (x *Index) Room(s uint32) index.ArenaStats {
	if s >= uint32(x.c.arena_n) {
		return index.ArenaStats{}
	}
	r := &unsafe.Slice(x.c.arenas, x.c.arena_n)[s]
	return index.ArenaStats{Free: index.Unit(r.free), Load: index.Unit(r.load),
		Peak: index.Unit(r.peak), Used: uint32(r.used)}
}

func (x *Index) Total() index.Total {
	t := x.c.now
	return index.Total{
		Load: index.Unit(t.load), PeakLoad: index.Unit(t.peak_load), Pending: index.Unit(t.pending),
		Blocks: int(t.blocks), Steps: uint32(t.steps), Hits: uint64(t.hits), Fits: uint64(t.fits),
	}
}

func (x *Index) Assign(heap uint32, id mem.StreamID, pool uint64) {
	x.must(C.index_assign(x.c, C.uint32_t(heap), C.uint64_t(id), C.uint64_t(pool)))
}

func (x *Index) EndStep() { x.c.now.steps++ }
