package main

// Nothing but tests calls what is in this file.

/*
#include "shared.h"
*/
import "C"

import "runtime"

// looseHost returns a host over a device that no program uses.
func looseHost() *host { return newHost(zeroed[C.struct_stalloc_device]()) }

// stalloc_engine_goroutines counts the process's goroutines: a stress test
// holds it to a constant.
//
//export stalloc_engine_goroutines
func stalloc_engine_goroutines() C.int { return C.int(runtime.NumGoroutine()) }
