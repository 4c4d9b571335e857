package main

/*
#include "shared.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"reflect"

	"stalloc/cshim/internal/layout"
	"stalloc/stream"
)

// publish enters a tape into the table that frees search by address.
func (e *engine) publish(t *C.struct_stalloc_tape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.arenas {
		if e.arenas[i].Load() == nil {
			e.arenas[i].Store(t)
			if n := uint32(i + 1); n > e.count.Load() {
				e.count.Store(n)
			}
			return
		}
	}
	panic(fmt.Sprintf("more than %d arenas", maxArenas))
}

// republish puts another tape over the same arena in a tape's place.
func (e *engine) republish(old, t *C.struct_stalloc_tape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.arenas {
		if e.arenas[i].Load() == old {
			e.arenas[i].Store(t)
		}
	}
}

func (e *engine) unpublish(t *C.struct_stalloc_tape) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range e.arenas {
		if e.arenas[i].Load() == t {
			e.arenas[i].Store(nil)
		}
	}
}

// checkLayout compares the structs of a tape that Go and C share.
func checkLayout() error {
	return errors.Join(
		layout.Same("entry", reflect.TypeFor[stream.Entry](), reflect.TypeFor[C.struct_stalloc_entry]()),
		layout.Same("live", reflect.TypeFor[stream.Live](), reflect.TypeFor[C.struct_stalloc_live]()),
		layout.Same("state", reflect.TypeFor[stream.State](), reflect.TypeFor[C.struct_stalloc_state]()),
	)
}
