package main

/*
#include <stddef.h>
*/
import "C"

import (
	"errors"

	"go.uber.org/zap"

	"stalloc/actors"
	"stalloc/plan"
)

//export stalloc_engine_save_plan
func stalloc_engine_save_plan(device C.int, path, text *C.char, n C.size_t) C.int {
	return answerAs(errPlan, text, n, func() error {
		d := process.Load().opened[device].Load()
		if d == nil || d.err != nil || d.Plan() == nil {
			return errors.New("no step has been planned yet")
		}
		return plan.WriteFile(C.GoString(path), d.Plan())
	})
}

//export stalloc_engine_load_plan
func stalloc_engine_load_plan(device C.int, path, text *C.char, n C.size_t) C.int {
	return answerAs(errPlan, text, n, func() error {
		return process.Load().load(int(device), C.GoString(path))
	})
}

// load reads the plan that a device begins with.
func (e *engine) load(ordinal int, path string) error {
	p, err := plan.ReadFile(path)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened[ordinal].Load() != nil {
		return errors.New(
			"memory of the device is in use already: load the plan before the first request")
	}
	if e.closed[ordinal] {
		return actors.ErrRetired
	}
	if e.conf.noPlan() {
		e.log.Warn("a plan was loaded and is not served: the settings have plans off",
			zap.String("file", path), zap.Int("device", ordinal))
		return nil
	}
	e.plans[ordinal] = p
	return nil
}
