package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/explain"
	"stalloc/internal/without"
	"stalloc/live/perfetto"
	"stalloc/plan"
)

// Options set a device up. The zero value plans beside the program, logs
// nothing and reserves what the range's own defaults say.
type Options struct {
	Log   *zap.Logger
	Range onerange.Config // the zero value: onerange.DefaultConfig
	// GMLake, if not nil, serves by GMLake's algorithm instead, without plans. Addresses
	// and limit are those of Range.
	GMLake *gmlake.Config
	// Without has mechanisms switched off: without.Plans for programs that want none, the others
	// for measurements.
	Without without.Set
	// Clock times steps and waits; the zero value: the wall's. For replays, whose time is that of
	// the recording.
	Clock Clock
	// Always serves every plan, whatever it is worth: for tests of what must hold under
	// any plan.
	Always bool
	// Inline plans at the boundary itself, on the thread that ends the step: for
	// replays, where no time passes between steps.
	Inline bool
	// Native says that PyTorch's own allocator is simulated beside the program: see Stats.
	Native bool
	// Plan is what an earlier run has left: its steps are planned as soon as there is memory
	// for them.
	Plan *plan.Plan
	// Holders are the processes that hold memory of the device. They are asked for beside the
	// program at the start, if the answer would be logged, and for every explanation. Nil, and
	// errors, cost these lines.
	Holders func() ([]explain.Holder, error)
	// Report names a file for what is known when memory runs out, "" for none: %p in it is
	// the process, %r its rank, %d the device.
	Report  string
	Ordinal int             // of the device, for Report and Trace
	Trace   *perfetto.Trace // what happens when, nil for nobody
}

// A Clock tells the time since some moment, and lets some pass.
type Clock struct {
	Now   func() time.Duration
	Sleep func(time.Duration)
}

// Open starts the actors of a device. Close ends them.
func Open(dev device.Device, host Host, opts Options) (*Device, error) {
	opts.defaults()
	p, err := newPool(dev, host, &opts)
	if err != nil {
		return nil, err
	}
	d := &Device{opts: opts, log: opts.Log, dev: dev, host: host, base: p.base, largest: p.largest,
		small: p.small}
	p.marked, p.retries = &d.marked, &d.retries
	d.allocs.New = func() any { return new(allocRequest) }
	d.frees.New = func() any { return new(freeRequest) }
	d.streams.Store(&[]*stream{})
	d.system = newSystem(opts.Log)
	d.root = d.system.Root
	d.pool = d.root.Spawn(onCaller(func() actor.Actor { return p }))
	sup := &supervisor{d: d}
	d.supervisor = d.root.Spawn(onCaller(func() actor.Actor { return sup }))
	if opts.GMLake == nil {
		planner := &planner{d: d, known: map[arenaKey]*kinds{}, saver: saver{d: d}}
		props := beside
		if opts.Inline {
			props = onCaller
		}
		d.planner = d.root.Spawn(props(func() actor.Actor { return planner }))
	}
	d.startNative(p.total)
	if opts.Plan != nil && !opts.Without.Has(without.Plans) {
		d.latest.Store(opts.Plan)
		d.root.Send(d.planner, &planLoaded{opts.Plan})
	}
	host.Lock()
	host.Observe(opts.GMLake == nil)
	host.Unlock()
	if opts.Holders != nil && d.log.Core().Enabled(zap.InfoLevel) {
		go d.logHolders()
	}
	return d, nil
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	defer func() { o.Range.Without = o.Without }()
	if o.Range.Window <= 0 {
		limit := o.Range.Limit
		o.Range = onerange.DefaultConfig()
		o.Range.Limit = limit
	}
	if o.GMLake != nil {
		o.Without, o.Plan = o.Without|without.Plans, nil
	}
	if o.Clock.Now == nil {
		begin := time.Now()
		o.Clock.Now = func() time.Duration { return time.Since(begin) }
	}
	if o.Clock.Sleep == nil {
		o.Clock.Sleep = time.Sleep
	}
}

// Close waits for what goes on beside the program, a plan in the making included,
// stops the actors and closes the device. Live blocks end with it.
func (d *Device) Close() error {
	if d.closing.Swap(true) {
		return fmt.Errorf("%w: the device was closed before", ErrBroken)
	}
	d.endPlanning()
	d.endNative(false)
	err := d.rare((*pool).close, (*pool).close)
	d.system.Shutdown()
	return err
}
