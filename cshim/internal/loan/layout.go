package loan

/*
#include "pool.h"
*/
import "C"

import (
	"fmt"
	"reflect"

	"stalloc/engine"
)

// Check compares the structs that Go and C share: every field's place, and each
// struct's size. A field of C that Go has not, or the other way round, shows in
// them, too.
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
		if err := same(s.array, field.Type.Elem(), s.c); err != nil {
			return err
		}
	}
	return same("Counters", reflect.TypeFor[engine.Counters](), reflect.TypeFor[C.struct_pool_counters]())
}

// same compares two types, but for their names and the padding that cgo writes out.
func same(at string, a, b reflect.Type) error {
	if a.Size() != b.Size() {
		return fmt.Errorf("%s differs between Go and C: %d and %d bytes", at, a.Size(), b.Size())
	}
	switch a.Kind() {
	case reflect.Array:
		if b.Kind() != reflect.Array || a.Len() != b.Len() {
			return fmt.Errorf("%s differs between Go and C: %v and %v", at, a, b)
		}
		return same(at+"[]", a.Elem(), b.Elem())
	case reflect.Struct:
		fields := shown(b)
		if len(fields) != a.NumField() {
			return fmt.Errorf("%s has %d fields in Go and %d in C", at, a.NumField(), len(fields))
		}
		for i, c := range fields {
			f := a.Field(i)
			if f.Offset != c.Offset {
				return fmt.Errorf("%s.%s lies at %d in Go and, as %s, at %d in C", at, f.Name, f.Offset, c.Name, c.Offset)
			}
			if err := same(at+"."+f.Name, f.Type, c.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// shown returns the fields of a C struct without padding.
func shown(t reflect.Type) (fields []reflect.StructField) {
	for i := range t.NumField() {
		if f := t.Field(i); f.Name != "_" {
			fields = append(fields, f)
		}
	}
	return fields
}
