package main

/*
#include <sys/mman.h>
#include "fastpath.h"

#define ARRAY (STALLOC_MAX_EVENTS * sizeof(struct stalloc_event))
static struct stalloc_event *log_array(void) {
	void *at = mmap(NULL, ARRAY, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}
static void log_end_array(struct stalloc_event *a) { munmap(a, ARRAY); }
static void log_observe(struct stalloc_log *l, bool on) {
	if (on && !l->events) l->events = log_array();
	stalloc_log_begin(l, on);
}
// Continues the log in another array.
static void log_swap(struct stalloc_log *l, struct stalloc_event *a) {
	l->next = l->events = a;
	stalloc_log_begin(l, true);
}
*/
import "C"

import (
	"slices"
	"unsafe"

	"stalloc/stream/schedule"
)

func (h *host) Note(e schedule.Event) {
	C.stalloc_log_push(&h.device.log, C.uint64_t(e.Addr), C.uint64_t(e.Info))
}

func (h *host) Logged() int {
	l := &h.device.log
	bytes := uintptr(unsafe.Pointer(l.next)) - uintptr(unsafe.Pointer(l.events))
	return int(bytes / C.sizeof_struct_stalloc_event)
}

// An event of C's and one of Go's are two words each, in the same order.
var _ [0]struct{} = [unsafe.Sizeof(schedule.Event{}) - C.sizeof_struct_stalloc_event]struct{}{}

// mostCopied is how many events are copied at a boundary. With more, the array itself is handed
// over and the log continues in another: copying a million takes the stepping thread 15 ms.
const mostCopied = 1 << 12

func (h *host) Take() (events []schedule.Event, lost uint64) {
	l := &h.device.log
	events, lost = unsafe.Slice((*schedule.Event)(unsafe.Pointer(l.events)),
		h.Logged()), uint64(l.lost)
	if len(events) > mostCopied {
		if next := h.array(); next != nil {
			C.log_swap(l, next)
			return events, lost
		}
		events, lost = nil, lost+uint64(len(events))
	}
	events = slices.Clone(events)
	C.stalloc_log_begin(l, l.end != l.events)
	return events, lost
}

// array returns an unused array for a log; nil: the host has no memory left.
func (h *host) array() (a *C.struct_stalloc_event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, h.spare = h.spare, nil; a == nil {
		a = C.log_array()
	}
	return a
}

func (h *host) Return(events []schedule.Event) {
	if len(events) <= mostCopied { // a copy: only larger arrays are handed over
		return
	}
	a := (*C.struct_stalloc_event)(unsafe.Pointer(unsafe.SliceData(events)))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.spare == nil {
		h.spare = a
	} else {
		C.log_end_array(a)
	}
}

func (h *host) Observe(on bool) { C.log_observe(&h.device.log, C.bool(on)) }
