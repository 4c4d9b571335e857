package main

/*
#include "shared.h"
*/
import "C"

import (
	"errors"
	"reflect"

	"stalloc/cshim/internal/layout"
	"stalloc/cshim/internal/loan"
	"stalloc/stream/wish"
)

// checkLayout compares the structs of tapes and events that Go and C share.
func checkLayout() error {
	return errors.Join(
		layout.Same("state", reflect.TypeFor[wish.State](), reflect.TypeFor[C.struct_stalloc_tape_state]()),
		layout.Same("event", reflect.TypeFor[wish.Event](), reflect.TypeFor[C.struct_stalloc_event]()),
		loan.Check(),
	)
}
