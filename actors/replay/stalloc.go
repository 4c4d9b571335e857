package replay

import (
	"bytes"
	"context"
	"fmt"

	"stalloc/actors"
	"stalloc/cuda/sim"
	"stalloc/engine/gmlake"
	"stalloc/internal/mem"
	"stalloc/plan"
	"stalloc/trace"
)

// ours makes the list entry of the live allocator, its actors over a simulated
// device.
func ours() Allocator {
	return Allocator{Name: "stalloc", Plans: true, New: func(ctx context.Context, tr *trace.Trace, c Config) (Target, error) {
		options := actors.Options{Inline: true}
		if c.Pool == "gmlake" {
			lake := gmlake.DefaultConfig()
			lake.FragLimit = c.FragLimit
			options.GMLake = &lake
		}
		if c.Warm {
			p, err := earlier(ctx, tr)
			if err != nil {
				return nil, fmt.Errorf("the plan for a warm run of %s: %w", tr.Name, err)
			}
			options.Plan = p
		}
		return newLive(sim.New(sim.Config{Capacity: c.Capacity, Manual: true}), options)
	}}
}

// earlier is the plan that an earlier run of the trace would have left: made
// from its set-up, first and last step, written and read back.
func earlier(ctx context.Context, tr *trace.Trace) (*plan.Plan, error) {
	steps := Observe(tr)
	if len(steps) < 2 {
		return nil, fmt.Errorf("it has %d steps, two are needed: set-up with the first step, and a later one", len(steps))
	}
	p, err := plan.MakeRun(plan.Run{
		Prologue: steps[0], Boundaries: 2, Steady: [][]*plan.Step{steps[len(steps)-1]},
	}, plan.Options{})
	if err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := p.Encode(&file); err != nil {
		return nil, err
	}
	return plan.Decode(&file, tr.Name)
}

// live is a Target over the live allocator.
type live struct {
	device *sim.Device
	local  *actors.Local
	blocks map[int64]mem.Addr
	waits  map[int64]mem.StreamID // blocks that another stream still uses
	fault  error
	// Steps served under a plan, and the driver calls up to the end of the
	// second.
	planned int
	begun   int64
}

// otherStream is the first number of the streams that stand in for the unknown
// stream a deferred free waits for. One for each such block: the trace says when
// each wait ends.
const otherStream mem.StreamID = 1 << 40

func newLive(device *sim.Device, options actors.Options) (*live, error) {
	local, err := actors.OpenLocal(device, options)
	if err != nil {
		return nil, err
	}
	return &live{device: device, local: local, blocks: make(map[int64]mem.Addr), waits: make(map[int64]mem.StreamID)}, nil
}

func (l *live) Alloc(id int64, size mem.Bytes, stream mem.StreamID) error {
	addr, err := l.local.Malloc(stream, size)
	if err == nil && addr != 0 {
		l.blocks[id] = addr
	}
	return err
}

func (l *live) RecordStream(id int64, stream mem.StreamID) {
	if addr, ok := l.blocks[id]; ok {
		l.note(l.local.Use(addr, stream))
	}
}

func (l *live) FreeRequested(id int64, deferred bool) {
	addr, ok := l.blocks[id]
	if !ok {
		return
	}
	delete(l.blocks, id)
	if deferred {
		other := otherStream + mem.StreamID(id)
		l.waits[id] = other
		l.note(l.local.Use(addr, other))
		l.note(l.device.Use(other, addr, 1))
	}
	l.note(l.local.Release(addr))
}

func (l *live) FreeCompleted(id int64) {
	if other, ok := l.waits[id]; ok {
		delete(l.waits, id)
		l.device.Finish(other)
	}
}

func (l *live) EmptyCache() { l.note(l.local.Trim(0)) }

func (l *live) Step() {
	before := l.local.Stats().Generation
	l.note(l.local.Step())
	if before > 0 {
		if l.planned++; l.planned == 2 {
			l.begun = l.device.Stats().Calls()
		}
	}
}

func (l *live) Finish() (Counts, error) {
	s := l.local.Stats()
	c := Counts{
		Hits: int64(s.Hits), Misses: int64(s.Misses),
		PeakReserved: l.device.Peak(),
		DriverCalls:  l.device.Stats().Calls(),
		DriverTimeUS: float64(l.device.Time().Nanoseconds()) / 1e3,
	}
	if l.planned >= 2 {
		c.SteadyDriverCalls = c.DriverCalls - l.begun
	}
	l.note(l.local.Check())
	l.note(l.device.Check())
	for _, v := range l.device.Violations() {
		l.note(v)
	}
	return c, l.fault
}

func (l *live) note(err error) {
	if l.fault == nil {
		l.fault = err
	}
}
