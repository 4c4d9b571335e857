package actors

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"stalloc/actors/device"
	"stalloc/actors/host"
	"stalloc/actors/inline"
	"stalloc/actors/mover"
	"stalloc/actors/planner"
	"stalloc/actors/pool"
	"stalloc/actors/step"
	"stalloc/actors/stream"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/explain"
	"stalloc/internal/mem"
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
	// Without names mechanisms that are off: without.Plans for programs that want none, the others
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
	// Shadow, if not nil, simulates PyTorch's own allocator beside the program: see Stats.
	Shadow func(ShadowEnv) Shadow
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

// Clock times steps and waits.
type Clock = pool.Clock

// Shadow follows the steps of a program as the planner reads them: replay/shadow is one.
type Shadow interface {
	Follow(*step.Observed, *step.Step)
	Private()                       // there are private pools, whose requests are not observed
	End(after bool)                 // after the steps that wait for it, or before them
	Estimate(peak mem.Bytes) Native // of a run with so high a load
}

// ShadowEnv is what a Shadow is made from.
type ShadowEnv struct {
	Log      *zap.Logger
	System   *inline.System
	Capacity mem.Bytes // of the device
	Inline   bool      // see Options
}

// Open starts the actors of a device. Close ends them.
func Open(dev device.Device, h host.Host, opts Options) (*Device, error) {
	opts.defaults()
	d := &Device{opts: opts, log: opts.Log, dev: dev, host: h}
	p, err := pool.New(dev, pool.Env{Log: opts.Log, Host: h, Clock: opts.Clock, Trace: opts.Trace,
		Ordinal: opts.Ordinal, Marked: &d.counts.marked, Retries: &d.counts.retries},
		opts.Range, opts.GMLake)
	if err != nil {
		return nil, err
	}
	d.window = p.Window
	d.messages.New = func() any { return new(messages) }
	d.system = inline.NewSystem(opts.Log)
	d.streams = stream.NewTable(stream.Env{Lock: h, Cursors: h, System: d.system, Base: p.Base,
		Small: p.Small})
	d.pool = d.system.Spawn(p)
	d.life.mover = mover.New(mover.Env{Clock: opts.Clock, Load: h.TakeLoad,
		Go:     d.life.background.Go,
		OnPool: func(do func(*pool.Pool) error) error { return d.onPool(do, nothing) }})
	d.supervisor = d.system.Spawn(&supervisor{d: d})
	if opts.GMLake == nil {
		d.startPlanner()
	}
	h.Lock()
	h.Observe(opts.GMLake == nil)
	h.Unlock()
	if opts.Holders != nil && d.log.Core().Enabled(zap.InfoLevel) {
		go d.logHolders()
	}
	return d, nil
}

// startPlanner begins to plan, and to simulate if that is wanted.
func (d *Device) startPlanner() {
	spawn := d.system.SpawnBeside
	if d.opts.Inline {
		spawn = d.system.Spawn
	}
	env := planner.Env{Log: d.log, Small: d.window.Small, Base: d.window.Base,
		Plan: !d.opts.Without.Has(without.Plans), Always: d.opts.Always,
		Build: d.host.Build, Save: d.latest.Store,
		Send: func(m *planner.Ready) { d.system.Send(d.supervisor, m) },
		Read: func(weight int64) { d.counts.waiting.Add(-weight) },
		Free: func() (mem.Bytes, error) { free, _, err := d.dev.Memory(); return free, err },
		Warn: d.warned,
	}
	if d.opts.Shadow != nil && d.window.Total > 0 {
		d.shadow = d.opts.Shadow(ShadowEnv{d.log, d.system, d.window.Total, d.opts.Inline})
		env.Follow = d.shadow.Follow
	}
	d.planner = spawn(planner.New(env))
	if d.opts.Plan != nil && env.Plan {
		d.latest.Store(d.opts.Plan)
		d.system.Send(d.planner, &planner.Loaded{Plan: d.opts.Plan})
	}
}

// warned keeps what was said of a step that will not fit, for explanations.
func (d *Device) warned(need, there mem.Bytes) {
	note := fmt.Sprintf(" Said after step %d: the next one will not fit if it is like the one "+
		"before. It needs at least %v, and there is %v.", d.counts.steps.Load(), need, there)
	d.tooLarge.Store(&note)
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.GMLake != nil {
		o.Without, o.Plan = o.Without|without.Plans, nil
	}
	if o.Range.Window <= 0 {
		limit := o.Range.Limit
		o.Range = onerange.DefaultConfig()
		o.Range.Limit = limit
	}
	o.Range.Without = o.Without
	if o.Clock.Now == nil {
		begin := time.Now()
		o.Clock.Now = func() time.Duration { return time.Since(begin) }
	}
	if o.Clock.Sleep == nil {
		o.Clock.Sleep = time.Sleep
	}
}
