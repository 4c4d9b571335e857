package engine

import (
	"math"

	"stalloc/internal/mem"
)

// SetLimit bounds the physical memory that may be created from now on; 0: no
// bound. What is held beyond it already stays.
func (e *Engine) SetLimit(limit mem.Bytes) {
	e.limit = math.MaxInt
	if limit > 0 {
		e.limit = int(limit / mem.HandleSize)
	}
}
