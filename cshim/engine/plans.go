package main

/*
#include "shared.h"
*/
import "C"

import (
	"errors"

	"stalloc/actors"
	"stalloc/plan"
)

var (
	errNoPlan  = errors.New("no step has been planned yet")
	errTooLate = errors.New("memory of the device is in use already: load the plan before the first request")
)

// save writes a device's latest plan.
func (e *engine) save(ordinal int, path string) error {
	d := e.opened[ordinal].Load()
	if d == nil || d.err != nil || d.Plan() == nil {
		return errNoPlan
	}
	return plan.WriteFile(path, d.Plan())
}

// load reads the plan that a device begins with. Where nothing is planned the file is not
// looked at.
func (e *engine) load(ordinal int, path string) error {
	if e.conf.noPlan() {
		return nil
	}
	p, err := plan.ReadFile(path)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened[ordinal].Load() != nil {
		return errTooLate
	}
	if e.closed[ordinal] {
		return actors.ErrRetired
	}
	e.plans[ordinal] = p
	return nil
}

//export stalloc_engine_save_plan
func stalloc_engine_save_plan(device C.int, path, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	return planned((*engine).save, device, path, text, n)
}

//export stalloc_engine_load_plan
func stalloc_engine_load_plan(device C.int, path, text *C.char, n C.size_t) (result C.int) {
	defer guard(&result, text, n)
	return planned((*engine).load, device, path, text, n)
}

func planned(what func(*engine, int, string) error, device C.int, path, text *C.char, n C.size_t) C.int {
	if err := what(the.Load(), int(device), C.GoString(path)); err != nil {
		write(err.Error(), text, n)
		return errPlan
	}
	return ok
}
