package main

/*
#include "tape.h"

static void host_borrow(struct stalloc_device *d, void *pool) {
	atomic_store_explicit(&d->pool, (struct stalloc_pool *)pool, memory_order_release);
}
static int64_t host_load(struct stalloc_device *d) { return stalloc_load_bytes(STALLOC_RELAXED(d->load)); }
static struct stalloc_stream *host_streams(struct stalloc_device *d) { return atomic_load(&d->streams); }
*/
import "C"

import (
	"sync"

	"stalloc/actors"
	"stalloc/cshim/internal/loan"
	"stalloc/internal/mem"
	"stalloc/stream"
)

// host lists the streams that C has seen on a device, and lends C the pool.
type host struct {
	*loan.Pool
	e      *engine
	device *C.struct_stalloc_device

	mu    sync.Mutex
	ports []actors.Port
	byC   map[*C.struct_stalloc_stream]*port
}

// borrow lets C serve from the pool while it is lent.
func (h *host) borrow() { C.host_borrow(h.device, h.Address()) }

// Load implements actors.Host.
func (h *host) Load() mem.Bytes { return mem.Bytes(C.host_load(h.device)) }

// Ports implements actors.Host. C links new streams in front.
func (h *host) Ports() []actors.Port {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refresh()
	return h.ports[:len(h.ports):len(h.ports)]
}

// refresh makes ports for streams that have appeared. The host is locked.
func (h *host) refresh() {
	if h.byC == nil {
		h.byC = make(map[*C.struct_stalloc_stream]*port)
	}
	var fresh []*C.struct_stalloc_stream
	for s := C.host_streams(h.device); s != nil && h.byC[s] == nil; s = s.next {
		fresh = append(fresh, s)
	}
	for i := len(fresh) - 1; i >= 0; i-- {
		p := &port{s: fresh[i], host: h, tapes: make(map[*stream.Tape]*C.struct_stalloc_tape)}
		if h.e.conf.noPlan || h.e.conf.pool == "range" { // its pool sees every request
			p.doNotObserve()
		}
		h.byC[fresh[i]] = p
		h.ports = append(h.ports, p)
	}
}

// port returns the port of a stream of this device.
func (h *host) port(s *C.struct_stalloc_stream) *port {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.byC[s]; p != nil {
		return p
	}
	h.refresh()
	return h.byC[s]
}

// notePin tells the planner that another stream uses a block of the pool; C
// does so for blocks of a tape.
func (d *opened) notePin(at mem.Addr, user mem.StreamID) {
	owner, err := d.Owner(at)
	if err != nil || owner == user {
		return
	}
	for _, p := range d.host.Ports() {
		if p := p.(*port); p.ID() == owner {
			p.notePin(at)
		}
	}
}
