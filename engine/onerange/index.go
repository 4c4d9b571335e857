package onerange

import (
	"stalloc/engine/index"
	"stalloc/internal/mem"
)

// unit counts 512 bytes: a place in the window, or a size.
type unit = index.Unit

const pageUnits = unit(mem.HandleSize / mem.Grain) // the driver's granularity

func bytesOf(n unit) mem.Bytes { return mem.Bytes(n) * mem.Grain }

func unitsOf(n mem.Bytes) unit { return unit((n + mem.Grain - 1) / mem.Grain) }

// isFree reports whether all of [lo, hi) is free in one gap of an arena.
func (e *Engine) isFree(s uint32, lo, hi unit) bool { return e.idx.Gap(s, lo).Hi >= hi }
