package main

import (
	"errors"

	"go.uber.org/zap"

	"stalloc/actors"
	"stalloc/plan"
)

func (e *engine) save(ordinal int, path string) error {
	d := e.opened[ordinal].Load()
	if d == nil || d.err != nil || d.Plan() == nil {
		return failure{errors.New("no step has been planned yet"), errPlan}
	}
	if err := plan.WriteFile(path, d.Plan()); err != nil {
		return failure{err, errPlan}
	}
	return nil
}

// load reads the plan that a device begins with.
func (e *engine) load(ordinal int, path string) error {
	p, err := plan.ReadFile(path)
	if err != nil {
		return failure{err, errPlan}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.opened[ordinal].Load() != nil {
		return failure{errors.New("memory of the device is in use already: load the plan before the first request"), errPlan}
	}
	if e.closed[ordinal] {
		return failure{actors.ErrRetired, errPlan}
	}
	if e.conf.noPlan() {
		e.log.Warn("a plan was loaded and is not served: the settings have plans off",
			zap.String("file", path), zap.Int("device", ordinal))
		return nil
	}
	e.plans[ordinal] = p
	return nil
}
