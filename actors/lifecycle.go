package actors

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"stalloc/actors/mover"
	"stalloc/actors/planner"
	"stalloc/actors/pool"
	"stalloc/actors/stream"
)

// A device that is retired has no planner, no schedule and no memory but that of its live blocks.
// Those stay where they are: they are looked up, recorded and freed as ever, and memory that a free
// leaves idle goes back to the driver. Streams, pool and supervisor have no goroutine; they go on
// answering, so that a thread in the middle of a request need not know. Nothing is begun anew: the
// program closes a device to have its memory, and plain allocations serve a request that comes
// later.
//
//	open ──► retired ──► closed     Retire, Close
//	open ──────────────► closed     Close
type lifecycle struct {
	mu         sync.Mutex // of changes
	state      atomic.Uint32
	background sync.WaitGroup // the mover's goroutine
	mover      *mover.Mover
}

const (
	isOpen uint32 = iota
	isRetired
	isClosed
)

// Retire ends serving: steps that wait are read, for the plan that may be saved; then all memory
// without live blocks goes back to the driver, but for that of private pools which are not
// released: a graph may still use it. Called again, it tries what the driver has refused.
func (d *Device) Retire() error {
	d.life.mu.Lock()
	defer d.life.mu.Unlock()
	if d.life.state.Load() != isOpen {
		return d.Trim(0)
	}
	d.endBackground(true)
	err := d.onSupervisor((*supervisor).retire)
	d.life.state.Store(isRetired)
	if errors.Is(err, ErrBroken) { // it has given nothing back and serves nobody
		return nil
	}
	return err
}

// Close waits for what goes on beside the program, a plan in the making included,
// stops the actors and closes the device. Live blocks end with it.
func (d *Device) Close() error {
	d.life.mu.Lock()
	defer d.life.mu.Unlock()
	switch d.life.state.Swap(isClosed) {
	case isClosed:
		return fmt.Errorf("%w: the device was closed before", ErrBroken)
	case isOpen:
		d.endBackground(false)
	}
	err := d.onPool((*pool.Pool).Close, (*pool.Pool).Close)
	d.system.Shutdown()
	return err
}

// endBackground waits for the planner, and ends it and the simulation: after the steps that wait
// for it, or before them.
func (d *Device) endBackground(after bool) {
	stop := func(*pool.Pool) error { d.life.mover.Stop(); return nil }
	_ = d.onPool(stop, stop)
	if d.planner != nil {
		d.system.Ask(d.planner, &planner.LastLook{})
		d.system.Stop(d.planner) // it begins nothing new once it has stopped
	}
	d.life.background.Wait()
	if d.shadow != nil {
		d.shadow.End(after)
	}
}

// retire takes all schedules from the streams, and ends the pool's serving.
func (s *supervisor) retire() error {
	s.schedules = nil
	err := s.update(func(x *stream.Stream, to *stream.Schedules) bool {
		*to = stream.Schedules{}
		return x.Planned()
	})
	if err != nil {
		return err
	}
	return s.d.onPool((*pool.Pool).Retire, nil)
}
