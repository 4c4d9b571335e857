// Package camount calls the C library's reader of amounts, for the test that holds it to
// mem.ParseBytes: what C has checked, the engine reads again.
package camount

/*
#cgo CFLAGS: -std=gnu11 -D_GNU_SOURCE -I${SRCDIR}/../../lib
#include <stdlib.h>
#include "amount.h"

static int read_amount(const char *text, uint64_t *bytes, double *share) {
	struct stalloc_amount a = {0};
	int ok = stalloc_read_amount(text, &a);
	*bytes = a.bytes;
	*share = a.share;
	return ok;
}
*/
import "C"

import (
	"unsafe"

	"stalloc/internal/mem"
)

// Read reads an amount as C does: bytes, or a share of a device.
func Read(text string) (bytes mem.Bytes, share float64, ok bool) {
	at := C.CString(text)
	defer C.free(unsafe.Pointer(at))
	var n C.uint64_t
	var part C.double
	if C.read_amount(at, &n, &part) == 0 {
		return 0, 0, false
	}
	return mem.Bytes(n), float64(part), true
}
