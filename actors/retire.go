package actors

import (
	"errors"

	"go.uber.org/zap"

	"stalloc/engine"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// A device that is retired has no planner, no schedule and no memory but that of its live
// blocks. Those stay where they are: they are looked up, recorded and freed as ever, and
// what a free leaves idle goes back to the driver. Streams, pool and supervisor have no
// goroutine; they go on answering, so that a thread in the middle of a request need not
// know. Nothing is begun anew: who closes a device wants its memory, and a request that
// comes late is a straggler, which plain allocations serve as well.

// ErrRetired is the answer to a request of a device that was retired.
var ErrRetired = errors.New("the device was closed")

// lastLook is answered when the planner has looked at what waits.
type lastLook struct{ answer }

// Retire ends serving: steps that wait are looked at, for the plan that may be saved; then all
// memory without live blocks goes back to the driver, but for that of private pools which are not
// released: a graph may still use it. Called again, it tries what the driver has refused.
func (d *Device) Retire() error {
	d.retiring.Lock()
	defer d.retiring.Unlock()
	if d.retired.Load() {
		return d.Trim(0)
	}
	d.endPlanning()
	d.endNative(true)
	err := tell(d, d.supervisor, (*supervisor).retire)
	d.retired.Store(true)
	if errors.Is(err, ErrBroken) { // it has given nothing back and serves nobody
		return nil
	}
	return err
}

// endPlanning waits for what goes on beside the program, and ends it.
func (d *Device) endPlanning() {
	d.planning.Do(func() {
		if d.planner != nil {
			d.ask(d.planner, &lastLook{})
			// It begins nothing new once it has stopped.
			_ = d.root.StopFuture(d.planner).Wait()
		}
		d.background.Wait()
	})
}

// retire takes all schedules from the streams, and has the pool serve no more.
func (s *supervisor) retire() error {
	s.schedules = nil
	for _, l := range *s.d.streams.Load() {
		if !l.planned.Load() {
			continue
		}
		if err := s.d.playing(l,
			func(schedules *[schedule.Cursors]*Schedule) { *schedules = [schedule.Cursors]*Schedule{} }); err != nil {
			return err
		}
	}
	return s.d.rare((*pool).retire, nil)
}

// retire ends serving and gives back what is idle.
func (p *pool) retire() error {
	p.retired = true
	events, _ := p.host.Take()
	p.host.Return(events)
	p.host.Observe(false)
	return p.giveIdleBack()
}

// giveIdleBack waits for other streams' work, as the driver's own free does, and returns what
// nobody uses.
func (p *pool) giveIdleBack() error {
	p.idle = 0
	p.await()
	_, err := p.run(engine.Event{Kind: engine.EvTrim})
	return errors.Join(err, p.trimRegions())
}

// freedRetired gives memory back after frees of a retired device: each time as much as a
// handle holds is free, and after the last.
func (p *pool) freedRetired(size mem.Bytes) {
	if p.idle += size; p.idle < mem.HandleSize && p.eng.Stats().Load > 0 {
		return
	}
	if err := p.giveIdleBack(); err != nil {
		p.log.Debug("memory of a closed device cannot be given back yet", zap.Error(err))
	}
}
