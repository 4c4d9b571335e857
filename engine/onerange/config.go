package onerange

import (
	"stalloc/engine/index"
	"stalloc/internal/mem"
	"stalloc/internal/without"
)

// Config says where the addresses lie and what memory may be spent on time. Start
// from DefaultConfig.
type Config struct {
	Base   mem.Addr  // start of the reserved address window, a multiple of 2 MiB
	Window mem.Bytes // its size: at least 64 MiB, at most 4 TiB
	Limit  mem.Bytes // most physical memory to create; 0: what the device gives

	SmallLimit mem.Bytes   // requests up to this have an arena of their own
	HandleMost mem.Bytes   // the largest handle, a power of two; 2 MiB: all are of one size
	HandlePart int         // a handle is at most such a part of the load
	GrowPart   int         // memory is made in such parts of a handle
	Without    without.Set // for measurements
}

// DefaultConfig returns the policy measured best on the recorded traces.
func DefaultConfig() Config {
	return Config{
		Base: 1 << 40, Window: maxWindow,
		SmallLimit: 64 * mem.KiB,
		HandleMost: 64 * mem.MiB, // up to here the driver takes no longer than for the smallest
		HandlePart: 384,
		GrowPart:   8,
	}
}

const maxWindow = 4 * mem.TiB

// withDefaults repairs values that no engine can work with: it has no one to
// report them to, and its callers read them from a checked configuration.
func (c Config) withDefaults() Config {
	if c.Window <= 0 || c.Window > maxWindow {
		c.Window = maxWindow
	}
	c.Window = max(c.Window&^(mem.HandleSize-1), 64*mem.MiB)
	c.Base = (c.Base + mem.Addr(mem.HandleSize) - 1) &^ (mem.Addr(mem.HandleSize) - 1)
	c.SmallLimit = min(max(c.SmallLimit, 0), mem.HandleSize)
	c.HandleMost = max(c.HandleMost, mem.HandleSize)
	c.HandlePart, c.GrowPart = max(c.HandlePart, 1), max(c.GrowPart, 1)
	if c.Without.Has(without.Small) {
		c.SmallLimit = 0
	}
	return c
}

// Largest is the most that an engine holds, and so the most that a gap or a block can
// have: as many bits are left for a size beside a start.
const Largest = mem.Bytes(mostHeld) * mem.Grain

const mostHeld = unit(1)<<(64-index.PlaceBits) - pageUnits

// SetLimit bounds the physical memory that may be created from now on, within
// Config.Limit; zero goes back to that.
func (e *Engine) SetLimit(n mem.Bytes) {
	if n <= 0 || e.cfg.Limit > 0 && n > e.cfg.Limit {
		n = e.cfg.Limit
	}
	if e.limit = mostHeld; n > 0 {
		e.limit = min(unit(n/mem.Grain), mostHeld)
	}
}

// unit counts 512 bytes: a place in the window, or a size.
type unit = index.Unit

const pageUnits = unit(mem.HandleSize / mem.Grain) // the driver's granularity

func bytesOf(n unit) mem.Bytes { return mem.Bytes(n) * mem.Grain }

func unitsOf(n mem.Bytes) unit { return unit((n + mem.Grain - 1) / mem.Grain) }
