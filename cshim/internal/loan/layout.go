package loan

/*
#include "pool.h"
*/
import "C"

import (
	"reflect"

	"stalloc/cshim/internal/layout"
	"stalloc/engine"
)

// Check compares the structs of the engine's state in Go and in C.
func Check() error {
	l := reflect.TypeFor[engine.Lent]()
	for _, s := range []struct {
		array string
		c     reflect.Type
	}{
		{"Pages", reflect.TypeFor[C.struct_pool_page]()},
		{"Runs", reflect.TypeFor[C.struct_pool_run]()},
		{"Handles", reflect.TypeFor[C.struct_pool_handle]()},
		{"Heaps", reflect.TypeFor[C.struct_pool_heap]()},
		{"Views", reflect.TypeFor[C.struct_pool_view]()},
		{"Blocks", reflect.TypeFor[C.struct_pool_block]()},
		{"Hints", reflect.TypeFor[C.struct_pool_hint]()},
		{"Counts", reflect.TypeFor[C.struct_pool_counter]()},
	} {
		field, _ := l.FieldByName(s.array)
		if err := layout.Same(s.array, field.Type.Elem(), s.c); err != nil {
			return err
		}
	}
	return layout.Same("Counters", reflect.TypeFor[engine.Counters](), reflect.TypeFor[C.struct_pool_counters]())
}
