// Package layout compares the structs that Go and C share. Both sides are built apart,
// so it is done at start.
package layout

import (
	"fmt"
	"reflect"
	"strings"
)

// Same compares a type in Go with its twin in C: sizes, and the place and name of every
// field, however deep. Names agree if one of them begins with the other, but for case
// and underscores. What cgo writes out as padding does not count. The error names the
// field.
func Same(at string, a, b reflect.Type) error {
	if a.Size() != b.Size() {
		return fmt.Errorf("%s differs between Go and C: %d and %d bytes", at, a.Size(), b.Size())
	}
	switch a.Kind() {
	case reflect.Array:
		if b.Kind() != reflect.Array || a.Len() != b.Len() {
			return fmt.Errorf("%s differs between Go and C: %v and %v", at, a, b)
		}
		return Same(at+"[]", a.Elem(), b.Elem())
	case reflect.Struct:
		fields := shown(b)
		if len(fields) != a.NumField() {
			return fmt.Errorf("%s has %d fields in Go and %d in C", at, a.NumField(), len(fields))
		}
		for i, c := range fields {
			f := a.Field(i)
			if f.Offset != c.Offset || !alike(f.Name, c.Name) {
				return fmt.Errorf("%s.%s lies at %d in Go and, as %s, at %d in C", at, f.Name, f.Offset, c.Name, c.Offset)
			}
			if err := Same(at+"."+f.Name, f.Type, c.Type); err != nil {
				return err
			}
		}
	}
	return nil
}

// alike reports whether two fields are named for the same thing. What is blank in Go is
// padding that C had to name.
func alike(inGo, inC string) bool {
	a, b := strings.ToLower(inGo), strings.ReplaceAll(strings.ToLower(inC), "_", "")
	return a == "_" || strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
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
