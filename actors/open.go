package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/plan"
)

// Options set a device up. The zero value plans beside the program, logs
// nothing and reserves what the engine's own defaults say.
type Options struct {
	Log    *zap.Logger
	Engine engine.Config // the zero value: engine.DefaultConfig
	// GMLake, if not nil, serves everything by GMLake's algorithm, which knows no plans.
	// Addresses and limit are those of Engine.
	GMLake *gmlake.Config
	// Range, if not nil, serves everything from one range for each stream. Plans are
	// wishes in it; they are not kept for later runs yet.
	Range  *onerange.Config
	NoPlan bool // serve everything from the pool
	// Clock tells how long steps take; the zero value: the wall's, and the driver's
	// time as it is measured. For replays, where neither is that of the recording.
	Clock Clock
	// Always makes a plan after every step and serves it whatever it is worth: for
	// tests of what must hold under any plan.
	Always bool
	// Inline plans at the boundary itself, on the thread that ends the step: for
	// replays, where no time passes between steps.
	Inline bool
	// Plan is served from the first request on: that of an earlier run.
	Plan *plan.Plan
	// Cache names the folder in which runs leave their plans for later ones, ""
	// for none. It is made when there is something to leave.
	Cache string
	// Neighbours says in a sentence or two who else holds memory of the device.
	// It is asked beside the program at the start, if the answer would be
	// logged, and when memory has run out. Nil, and errors, cost that sentence.
	Neighbours func() (string, error)
}

// Open starts the actors of a device. Close ends them.
func Open(dev device.Device, host Host, opts Options) (*Device, error) {
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	if opts.Engine == (engine.Config{}) {
		opts.Engine = engine.DefaultConfig()
	}
	if opts.Clock.Now == nil {
		begin := time.Now()
		opts.Clock.Now = func() time.Duration { return time.Since(begin) }
	}
	p, err := newPool(dev, &opts)
	if err != nil {
		return nil, err
	}
	if opts.Range != nil || opts.GMLake != nil {
		opts.Plan, opts.Cache = nil, ""
	}
	opts.NoPlan = opts.NoPlan || opts.GMLake != nil
	d := &Device{opts: opts, log: opts.Log, dev: dev, host: host, base: p.base, largest: p.largest}
	p.borrow(host, d.unwatched, &d.traffic)
	d.serves.New = func() any { return new(serveRequest) }
	d.allocs.New = func() any { return new(allocRequest) }
	d.frees.New = func() any { return new(freeRequest) }
	d.latest.Store(opts.Plan)
	d.late.expect(opts.Plan)
	d.lanes.Store(&[]*lane{})
	d.arenas.Store(&[]*arena{})
	d.system = newSystem(opts.Log)
	d.root = d.system.Root
	d.pool = d.root.Spawn(onCaller(func() actor.Actor { return p }))
	sup := &supervisor{d: d, start: opts.Plan, earlier: opts.Plan}
	d.supervisor = d.root.Spawn(onCaller(func() actor.Actor { return sup }))
	if !opts.NoPlan {
		var pl actor.Actor = newPlanner(d, opts.Plan)
		if opts.Range != nil {
			pl = &wisher{d: d, known: map[spaceKey]*habit{}}
		}
		props := beside
		if opts.Inline {
			props = onCaller
		}
		d.planner = d.root.Spawn(props(func() actor.Actor { return pl }))
		p.plan = func(x *foreseen) { d.root.Send(d.planner, x) }
	}
	if opts.Cache != "" && opts.Plan == nil && !opts.NoPlan {
		d.opening = newOpening(d, newCache(opts.Cache))
	}
	if opts.Neighbours != nil && d.log.Core().Enabled(zap.InfoLevel) {
		go d.logNeighbours()
	}
	return d, nil
}

// Close waits for what goes on beside the program, a plan in the making included,
// stops the actors and closes the device. Live blocks end with it.
func (d *Device) Close() error {
	if d.closing.Swap(true) {
		return fmt.Errorf("%w: the device was closed before", ErrBroken)
	}
	if d.planner != nil {
		// It begins nothing new once it has stopped. A planner that takes longer
		// to stop than the future waits is one that will not begin anything.
		_ = d.root.StopFuture(d.planner).Wait()
	}
	d.background.Wait()
	err := d.rare(&poolRequest{verb: verbClose})
	d.system.Shutdown()
	return err
}
