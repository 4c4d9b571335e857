package pool

import (
	"iter"

	"stalloc/actors/host"
	"stalloc/engine"
	"stalloc/engine/gmlake"
	"stalloc/engine/onerange"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// policy decides where blocks lie and when the driver is called: the range or, to compare with it,
// GMLake's algorithm. Both speak the engine's events and operations.
type policy interface {
	Step(engine.Event, []engine.Op) []engine.Op
	SetLimit(mem.Bytes)
	Keep(mem.Addr) // the block's free is an event, whoever frees it
	Forget(keep func(mem.StreamID) bool) (gone []mem.StreamID)
	// Indexed reports whether its blocks are in the host's index, for the fast path.
	Indexed() bool

	Lookup(mem.Addr) (engine.Block, bool)
	Within(mem.Addr) (engine.Block, bool)
	Blocks() iter.Seq[engine.Block]
	HandlesOf(is func(pool uint64) bool) []engine.Index
	PlaceOf(engine.Index) mem.Addr // a handle's own, no view; 0: none
	Regions() map[uint64]bool      // that have memory
	Streams() []mem.StreamID
	Ordinal(mem.StreamID) uint16
	Gaps(stream mem.StreamID, small bool, do func(engine.Range))

	Stats() engine.Stats
	Usage() engine.Usage
	LargestFree() mem.Bytes
	Reserved() mem.Bytes // the sizes of all handles
	Lending() mem.Bytes  // lent, and still in use by its streams' work
	Check() error
}

// newPolicy makes the one that is configured, over the addresses of layout.
func newPolicy(layout onerange.Config, gm *gmlake.Config, h host.Host) policy {
	small := layout.SmallLimit
	if layout.Without.Has(without.Small) {
		small = 0
	}
	h.Begin(layout.Base, layout.Window, small)
	if gm != nil {
		c := *gm
		c.Base, c.Window, c.Limit = layout.Base, layout.Window, layout.Limit
		return gmlake.New(c)
	}
	return onerange.New(layout, h.Index())
}
