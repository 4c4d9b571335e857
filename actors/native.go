package actors

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/baseline"
	"stalloc/internal/mem"
	"stalloc/stream/schedule"
)

// Native is what PyTorch's own allocator, as it is by default, would have come to with the
// same requests, by simulation.
type Native struct {
	PeakReserved mem.Bytes // 0: it cannot be told
	Steps        uint64    // the first ones, which it is of
	OutOfMemory  bool      // after them its device would have been full
}

const (
	// mostSimulated is how many events a device simulates: some seconds of a processor.
	mostSimulated = 10_000_000
	// untold is how much more than the simulation has seen, one part in so many, may have
	// been allocated at most: else the figure is of another run.
	untold = 100
)

// native is the actor that plays each step that has ended to a simulation of PyTorch's
// allocator, on a goroutine of its own. Once a step is missing there is no going on: what
// was found by then is told.
type native struct {
	log     *zap.Logger
	waiting atomic.Int64 // events of steps that were sent and not simulated yet
	over    atomic.Bool  // no more are sent
	ended   sync.Once
	found   atomic.Pointer[simulated]

	sim    *baseline.Native
	reader schedule.Reader
	blocks map[int]baseline.Block // live, or waiting for other streams
	events int
	load   mem.Bytes
	now    simulated
}

// simulated is what there is to tell so far.
type simulated struct {
	Native
	peak mem.Bytes // of the load that was simulated
}

// startNative begins a simulation on a device with so much memory, if that is wanted and can
// be.
func (d *Device) startNative(capacity mem.Bytes) {
	if !d.opts.Native || d.opts.GMLake != nil || capacity <= 0 {
		return
	}
	n := newNative(capacity, d.log)
	props := beside
	if d.opts.Inline {
		props = onCaller
	}
	d.native, d.simulator = n, d.root.Spawn(props(func() actor.Actor { return n }))
}

func newNative(capacity mem.Bytes, log *zap.Logger) *native {
	n := &native{log: log, sim: baseline.NewNative(baseline.Options{Capacity: capacity}),
		blocks: map[int]baseline.Block{}}
	n.found.Store(&simulated{})
	return n
}

// simulate hands a step on, if the simulation can follow.
func (d *Device) simulate(m *stepEnded) {
	n := d.native
	if n == nil || n.over.Load() {
		return
	}
	if n.waiting.Add(m.weight()) > mostWaiting {
		n.over.Store(true)
		return
	}
	m.readers.Add(1)
	d.root.Send(d.simulator, m)
}

// endNative ends the simulation, after the steps that wait or before them.
func (d *Device) endNative(after bool) {
	if d.native == nil {
		return
	}
	d.native.over.Store(true)
	d.native.ended.Do(func() {
		end := d.root.StopFuture
		if after {
			end = d.root.PoisonFuture
		}
		_ = end(d.simulator).Wait()
	})
}

// private says that there are private pools, whose requests are not observed: nothing can be
// told.
func (n *native) private() {
	if n != nil {
		n.over.Store(true)
		n.found.Store(nil)
	}
}

// estimate is what can be told of a run with so high a load.
func (n *native) estimate(peak mem.Bytes) Native {
	if n == nil {
		return Native{}
	}
	s := n.found.Load()
	if s == nil || peak-peak/untold > s.peak && !s.OutOfMemory {
		return Native{}
	}
	return s.Native
}

// Receive implements actor.Actor.
func (n *native) Receive(ctx actor.Context) {
	m, ok := ctx.Message().(*stepEnded)
	if !ok {
		return
	}
	defer m.read()
	defer n.waiting.Add(-m.weight())
	defer func() {
		if r := recover(); r != nil {
			n.end(zap.Any("panic", r))
		}
	}()
	if n.sim == nil {
		return
	}
	if n.events += len(m.events); m.lost > 0 || n.events > mostSimulated {
		n.stop()
		return
	}
	err := n.step(m)
	n.now.PeakReserved = n.sim.Stats().PeakReserved
	switch {
	case errors.Is(err, baseline.ErrOutOfMemory):
		n.now.OutOfMemory = true
		n.stop()
	case err != nil:
		n.end(zap.Error(err))
		return
	default:
		n.now.Steps++
	}
	found := n.now
	if last := n.found.Load(); last != nil { // nil: private pools
		n.found.CompareAndSwap(last, &found)
	}
}

// end gives up: what was simulated is not what has happened.
func (n *native) end(why zap.Field) {
	n.log.Debug("what PyTorch's allocator would have reserved cannot be told", why)
	n.found.Store(nil)
	n.stop()
}

// stop leaves it at what was found.
func (n *native) stop() {
	n.over.Store(true)
	n.sim, n.blocks = nil, nil
}

// errUnobserved says that the log is not that of one run.
var errUnobserved = errors.New("a block was freed whose request was not observed")

// step plays a step.
func (n *native) step(m *stepEnded) (err error) {
	for _, l := range n.reader.Read(m.events) {
		size := mem.Bytes(l.Event.Size()) * mem.Grain
		b, known := n.blocks[l.Block]
		switch l.What {
		case schedule.Requested:
			n.blocks[l.Block], err = n.sim.Malloc(size, m.streams[l.Event.Stream()])
			n.load += size
			n.now.peak = max(n.now.peak, n.load)
		case schedule.Freed, schedule.Released:
			n.load -= size
			if !known {
				return errUnobserved
			}
			if l.What == schedule.Released {
				err = n.sim.Defer(b)
			} else {
				delete(n.blocks, l.Block)
			}
			if err == nil {
				err = n.sim.Free(b)
			}
		case schedule.Done:
			delete(n.blocks, l.Block)
			if known {
				err = n.done(b)
			}
		case schedule.Trimmed:
			n.sim.EmptyCache()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// done ends the wait of a block for other streams. It may be over: before memory goes back to
// the driver all work is waited for.
func (n *native) done(b baseline.Block) error {
	if err := n.sim.Complete(b); !errors.Is(err, baseline.ErrUnknownBlock) {
		return err
	}
	return nil
}
