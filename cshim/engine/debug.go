package main

// Nothing but tests calls what is in this file.

import "C"

import "runtime"

// stalloc_engine_goroutines counts the process's goroutines: a stress test
// holds it to a constant.
//
//export stalloc_engine_goroutines
func stalloc_engine_goroutines() C.int { return C.int(runtime.NumGoroutine()) }
