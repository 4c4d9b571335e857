package actors

import (
	"time"

	"stalloc/engine"
)

// A Clock tells the time since some moment, how much of it the driver has had, and lets some pass.
type Clock struct {
	Now, Driver func() time.Duration
	Sleep       func(time.Duration)
}

// stepTimes are a clock's at the last boundary.
type stepTimes struct{ now, driver time.Duration }

// boundary is the event that ends a step, with what it took.
func (p *pool) boundary() engine.Event {
	at := stepTimes{p.clock.Now(), p.time}
	if p.clock.Driver != nil {
		at.driver = p.clock.Driver()
	}
	was := p.stepped
	p.stepped = at
	p.patience.endStep(at.now)
	return engine.Event{Kind: engine.EvBoundary, Took: int64(at.now - was.now), Driver: int64(at.driver - was.driver)}
}
