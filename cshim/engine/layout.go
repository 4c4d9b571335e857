package main

/*
#include "shared.h"
*/
import "C"

import (
	"errors"
	"reflect"

	"stalloc/cshim/internal/layout"
	"stalloc/stream"
)

// checkLayout compares the structs of a tape that Go and C share.
func checkLayout() error {
	return errors.Join(
		layout.Same("entry", reflect.TypeFor[stream.Entry](), reflect.TypeFor[C.struct_stalloc_entry]()),
		layout.Same("live", reflect.TypeFor[stream.Live](), reflect.TypeFor[C.struct_stalloc_live]()),
		layout.Same("state", reflect.TypeFor[stream.State](), reflect.TypeFor[C.struct_stalloc_state]()),
	)
}
