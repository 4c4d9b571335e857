package actors

import (
	"stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// policy is what decides where blocks lie and when the driver is called: the range or, to
// compare with it, GMLake's algorithm. Both speak the engine's events and operations.
type policy interface {
	Step(engine.Event, []engine.Op) []engine.Op
	Lookup(mem.Addr) (engine.Block, bool)
	Within(mem.Addr) (engine.Block, bool)
	Stats() engine.Stats
	Reserved() mem.Bytes // the sizes of all handles
	Check() error
	SetLimit(mem.Bytes)
}

// newPolicy makes the one that the options choose, over the addresses of cfg.
func newPolicy(cfg onerange.Config, opts *Options, host Host) policy {
	small := cfg.SmallLimit
	if cfg.Without.Has(without.Small) {
		small = 0
	}
	host.Begin(cfg.Base, cfg.Window, small)
	if opts.GMLake != nil {
		c := *opts.GMLake
		c.Base, c.Window, c.Limit = cfg.Base, cfg.Window, cfg.Limit
		return gmlake.New(c)
	}
	return onerange.New(cfg, host.Index())
}
