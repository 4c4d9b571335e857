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
			return errors.New("no step has been planned yet; save after some that repeat")
		}
		return plan.WriteFile(C.GoString(path), d.Plan())
	})
}

//export stalloc_engine_load_plan
func stalloc_engine_load_plan(device C.int, path, text *C.char, n C.size_t) C.int {
	return answerAs(errPlan, text, n, func() error {
		e, file := process.Load(), C.GoString(path)
		p, err := plan.ReadFile(file)
		if err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		switch {
		case e.opened[device].Load() != nil:
			return errors.New(
				"memory of the device is in use already: load the plan before the first request")
		case e.closed[device]:
			return actors.ErrRetired
		case e.conf.noPlan():
			e.log.Warn("a plan was loaded and is not served: the settings have plans off",
				zap.String("file", file), zap.Int("device", int(device)))
			return nil
		}
		e.plans[device] = p
		return nil
	})
}
