package main

/*
#cgo CFLAGS: -std=gnu11 -I${SRCDIR}/..
#include "rank.h"
*/
import "C"

// logName is what lines of the log begin with: with the rank, where there is one.
func logName() string {
	var name [32]C.char
	return C.GoString(C.stalloc_log_name(&name[0], C.size_t(len(name))))
}
