// Package shadow simulates PyTorch's own allocator beside a program that stalloc serves: what would
// native have reserved for the same requests? It follows the steps as the planner reads them, on a
// goroutine of its own.
package shadow

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"stalloc/actors"
	"stalloc/actors/inline"
	"stalloc/actors/step"
	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

const (
	// mostSimulated is how many events a device simulates: some seconds of a processor.
	mostSimulated = 10_000_000
	// mostWaiting bounds the events that wait for the simulation.
	mostWaiting = 1 << 20
	// maxMissedShare is how much more than the simulation has seen, one part in so many, may have
	// been allocated at most: else the figure is of another run.
	maxMissedShare = 100
)

// Shadow is the actor. Once an event is lost the simulation stops and reports its last result.
type Shadow struct {
	log     *zap.Logger
	system  *inline.System
	self    *inline.PID
	waiting atomic.Int64 // events that were sent and not simulated yet
	over    atomic.Bool  // no more are sent
	ended   sync.Once
	found   atomic.Pointer[result] // nil: nothing can be told

	// the actor's own
	sim    *baseline.Native
	blocks map[int]baseline.Block // live, or waiting for other streams
	events int
	load   mem.Bytes
	now    result
}

// result is what there is to tell so far.
type result struct {
	actors.Native
	peak mem.Bytes // of the load that was simulated
}

// New begins a simulation of a device with so much memory.
func New(env actors.ShadowEnv) actors.Shadow {
	x := &Shadow{log: env.Log, system: env.System, blocks: map[int]baseline.Block{},
		sim: baseline.NewNative(baseline.Options{Capacity: env.Capacity})}
	x.found.Store(&result{})
	if env.Inline {
		x.self = env.System.Spawn(x)
	} else {
		x.self = env.System.SpawnBeside(x)
	}
	return x
}

// observed is a step on its way to the actor.
type observed struct {
	step *step.Step
	lost bool // events of it, or before it
}

// Follow hands a step on, if the simulation can follow.
func (x *Shadow) Follow(o *step.Observed, s *step.Step) {
	if x.over.Load() {
		return
	}
	if x.waiting.Add(int64(len(s.Changes))) > mostWaiting {
		x.over.Store(true)
		return
	}
	x.system.Send(x.self, observed{s, o.Lost > 0 || o.Gap})
}

// Private says that there are private pools, whose requests are not observed: nothing can be told.
func (x *Shadow) Private() {
	x.over.Store(true)
	x.found.Store(nil)
}

// End ends the simulation, after the steps that wait or before them.
func (x *Shadow) End(after bool) {
	x.over.Store(true)
	x.ended.Do(func() {
		if after {
			x.system.Drain(x.self)
		} else {
			x.system.Stop(x.self)
		}
	})
}

// Estimate is what can be told of a run with so high a load.
func (x *Shadow) Estimate(peak mem.Bytes) actors.Native {
	s := x.found.Load()
	if s == nil || peak-peak/maxMissedShare > s.peak && !s.OutOfMemory {
		return actors.Native{}
	}
	return s.Native
}

// Receive implements inline.Actor.
func (x *Shadow) Receive(message any) {
	m, ok := message.(observed)
	if !ok {
		return
	}
	defer x.waiting.Add(-int64(len(m.step.Changes)))
	defer func() {
		if r := recover(); r != nil {
			x.giveUp(zap.Any("panic", r))
		}
	}()
	if x.sim == nil {
		return
	}
	if x.events += len(m.step.Changes); m.lost || x.events > mostSimulated {
		x.stop()
		return
	}
	err := x.simulate(m.step)
	x.now.PeakReserved = x.sim.Stats().PeakReserved
	switch {
	case errors.Is(err, baseline.ErrOutOfMemory):
		x.now.OutOfMemory = true
		x.stop()
	case err != nil:
		x.giveUp(zap.Error(err))
		return
	default:
		x.now.Steps++
	}
	found := x.now
	if last := x.found.Load(); last != nil { // nil: private pools
		x.found.CompareAndSwap(last, &found)
	}
}

// giveUp ends it without a result: what was simulated is not what has happened.
func (x *Shadow) giveUp(why zap.Field) {
	x.log.Debug("what PyTorch's allocator would have reserved cannot be told", why)
	x.found.Store(nil)
	x.stop()
}

// stop leaves it at what was found.
func (x *Shadow) stop() {
	x.over.Store(true)
	x.sim, x.blocks = nil, nil
}

// errUnobserved says that the log is not that of one run.
var errUnobserved = errors.New("a block was freed whose request was not observed")

// simulate plays a step.
func (x *Shadow) simulate(s *step.Step) (err error) {
	for _, c := range s.Changes {
		switch c.Kind {
		case schedule.EventHit, schedule.EventMiss:
			x.blocks[c.Block], err = x.sim.Malloc(c.Size, c.Stream)
			x.load += c.Size
			x.now.peak = max(x.now.peak, x.load)
		case schedule.EventFree, schedule.EventLate:
			x.load -= c.Size
			b, known := x.blocks[c.Block]
			if !known {
				return errUnobserved
			}
			if c.Kind == schedule.EventLate {
				err = x.sim.Defer(b)
			} else {
				delete(x.blocks, c.Block)
			}
			if err == nil {
				err = x.sim.Free(b)
			}
		case schedule.EventDone:
			if b, known := x.blocks[c.Block]; known {
				delete(x.blocks, c.Block)
				err = x.done(b)
			}
		case schedule.EventTrim:
			x.sim.EmptyCache()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// done ends the wait of a block for other streams. It may be over: before memory goes back to
// the driver all work is waited for.
func (x *Shadow) done(b baseline.Block) error {
	if err := x.sim.Complete(b); !errors.Is(err, baseline.ErrUnknownBlock) {
		return err
	}
	return nil
}
