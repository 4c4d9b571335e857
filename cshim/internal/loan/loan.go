// Package loan shows the engine's state to cshim/pool.h, whose quick cases serve
// requests of the pool from it while it is lent.
package loan

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/../..
#include <sched.h>
#include <stdlib.h>
#include "pool.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
	"unsafe"

	"stalloc/engine"
)

// Pool is the pool of one device as C sees it. It implements actors.Borrower. The
// arrays are Go's, pinned as long as C knows where they are.
type Pool struct {
	c      *C.struct_stalloc_pool
	taken  *atomic.Uint32 // its first field
	shown  arrays
	pinner runtime.Pinner
}

// arrays are the addresses of those of an engine.Lent.
type arrays [16 + C.POOL_LEVELS]unsafe.Pointer

// New makes a pool in which nothing is lent yet. Its struct in C stays for good:
// threads may be looking at it.
func New() *Pool {
	at := C.calloc(1, C.sizeof_struct_stalloc_pool)
	if at == nil {
		panic("the host has no memory left for a pool")
	}
	p := &Pool{c: (*C.struct_stalloc_pool)(at), taken: (*atomic.Uint32)(at)}
	p.taken.Store(1)
	return p
}

// Address returns where the struct stalloc_pool lies.
func (p *Pool) Address() unsafe.Pointer { return unsafe.Pointer(p.c) }

// Lend implements actors.Borrower.
func (p *Pool) Lend(l *engine.Lent, until uint64) {
	if now := addresses(l); now != p.shown {
		p.show(l, &now)
	}
	*(*engine.Counters)(unsafe.Pointer(&p.c.now)) = l.Counters
	p.c.until = C.uint64_t(until)
	p.taken.Store(0)
}

// Close lets go of the arrays, after TakeBack. Nothing can be lent any more.
func (p *Pool) Close() {
	p.pinner.Unpin()
	p.shown = arrays{}
}

// spins is how often TakeBack looks before it lets other threads go ahead: for
// longer than C's quick case takes.
const spins = 1000

// TakeBack implements actors.Borrower.
func (p *Pool) TakeBack(c *engine.Counters) bool {
	for n := 0; !p.taken.CompareAndSwap(0, 1); n++ {
		if n > spins {
			C.sched_yield()
		}
	}
	*c = *(*engine.Counters)(unsafe.Pointer(&p.c.now))
	return p.c.broken == 0
}

func data[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

func addresses(l *engine.Lent) arrays {
	at := arrays{
		data(l.Pages), data(l.Runs), data(l.Handles), data(l.Heaps), data(l.Views), data(l.Blocks), data(l.Hints), data(l.Counts),
		data(l.HeapKeys), data(l.HeapVals), data(l.BlockKeys), data(l.BlockVals),
		data(l.HintKeys), data(l.HintVals), data(l.CountKeys), data(l.CountVals),
	}
	for i, level := range l.Starts {
		at[len(at)-C.POOL_LEVELS+i] = data(level)
	}
	return at
}

// places returns where C looks for those addresses, in the same order.
func places(c *C.struct_stalloc_pool) arrays {
	at := arrays{
		unsafe.Pointer(&c.pages), unsafe.Pointer(&c.runs), unsafe.Pointer(&c.handles), unsafe.Pointer(&c.heaps),
		unsafe.Pointer(&c.views), unsafe.Pointer(&c.blocks), unsafe.Pointer(&c.hints), unsafe.Pointer(&c.counts),
		unsafe.Pointer(&c.heap_at.key), unsafe.Pointer(&c.heap_at.val), unsafe.Pointer(&c.block_at.key), unsafe.Pointer(&c.block_at.val),
		unsafe.Pointer(&c.hint_at.key), unsafe.Pointer(&c.hint_at.val), unsafe.Pointer(&c.count_at.key), unsafe.Pointer(&c.count_at.val),
	}
	for i := range c.starts {
		at[len(at)-C.POOL_LEVELS+i] = unsafe.Pointer(&c.starts[i])
	}
	return at
}

// show tells C where the arrays are, and how long they may become.
func (p *Pool) show(l *engine.Lent, now *arrays) {
	p.pinner.Unpin()
	for i, to := range places(p.c) {
		if now[i] != nil {
			p.pinner.Pin(now[i])
		}
		*(*unsafe.Pointer)(to) = now[i]
	}
	c := p.c
	c.base, c.small_limit, c.most, c.levels = C.uint64_t(l.Base), C.uint64_t(l.SmallLimit), C.uint64_t(l.Most), C.uint64_t(len(l.Starts))
	c.hinted = 0
	if l.Hinted {
		c.hinted = 1
	}
	c.run_room, c.block_room = C.uint64_t(cap(l.Runs)), C.uint64_t(cap(l.Blocks))
	c.hint_room, c.count_room = C.uint64_t(cap(l.Hints)), C.uint64_t(cap(l.Counts))
	c.heap_at.mask, c.block_at.mask = C.uint64_t(len(l.HeapKeys)-1), C.uint64_t(len(l.BlockKeys)-1)
	c.hint_at.mask, c.count_at.mask = C.uint64_t(len(l.HintKeys)-1), C.uint64_t(len(l.CountKeys)-1)
	p.shown = *now
}
