package loan

/*
#include "range.h"
*/
import "C"

import (
	"reflect"

	"stalloc/cshim/internal/layout"
	"stalloc/engine/onerange"
)

// Check compares the structs of the engine's state in Go and in C.
func Check() error {
	l := reflect.TypeFor[onerange.Lent]()
	for _, s := range []struct {
		array string
		c     reflect.Type
	}{
		{"Gaps", reflect.TypeFor[C.struct_range_gap]()},
		{"Spaces", reflect.TypeFor[C.struct_range_space]()},
		{"Blocks", reflect.TypeFor[C.struct_range_block]()},
		{"Heaps", reflect.TypeFor[C.struct_range_heap]()},
	} {
		field, _ := l.FieldByName(s.array)
		if err := layout.Same(s.array, field.Type.Elem(), s.c); err != nil {
			return err
		}
	}
	return layout.Same("Counters", reflect.TypeFor[onerange.Counters](), reflect.TypeFor[C.struct_range_counters]())
}
