package main

/*
#include "shared.h"
*/
import "C"

import (
	"errors"
	"reflect"

	"stalloc/cshim/internal/layout"
	"stalloc/engine/onerange"
	"stalloc/stream/wish"
)

// checkLayout compares the structs that Go and C share.
func checkLayout() error {
	lent := func(array string, c reflect.Type) error {
		field, _ := reflect.TypeFor[onerange.Lent]().FieldByName(array)
		return layout.Same(array, field.Type.Elem(), c)
	}
	return errors.Join(
		layout.Same("state", reflect.TypeFor[wish.State](), reflect.TypeFor[C.struct_stalloc_tape_state]()),
		layout.Same("event", reflect.TypeFor[wish.Event](), reflect.TypeFor[C.struct_stalloc_event]()),
		layout.Same("Counters", reflect.TypeFor[onerange.Counters](), reflect.TypeFor[C.struct_range_counters]()),
		lent("Gaps", reflect.TypeFor[C.struct_range_gap]()),
		lent("Spaces", reflect.TypeFor[C.struct_range_space]()),
		lent("Blocks", reflect.TypeFor[C.struct_range_block]()),
		lent("Heaps", reflect.TypeFor[C.struct_range_heap]()),
	)
}
