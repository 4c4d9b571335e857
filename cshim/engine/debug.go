package main

// Nothing but tests calls what is in this file.

/*
#include "fastpath.h"
*/
import "C"

import (
	"runtime"

	"stalloc/internal/mem"
)

// looseHost returns a host over a device that no program uses.
func looseHost() *host { return newHost(zeroed[C.struct_stalloc_device]()) }

// addLoad counts a block of n bytes as the fast path does; negative: its end.
func (h *host) addLoad(n mem.Bytes) {
	if n < 0 {
		C.stalloc_count_out(h.device, C.int64_t(-n), C.int64_t(-n))
		return
	}
	C.stalloc_count_in(h.device, C.int64_t(n), C.int64_t(n))
}

// stalloc_engine_goroutines counts the process's goroutines: a stress test
// holds it to a constant.
//
//export stalloc_engine_goroutines
func stalloc_engine_goroutines() C.int { return C.int(runtime.NumGoroutine()) }
