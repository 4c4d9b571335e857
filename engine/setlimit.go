package engine

import "stalloc/internal/mem"

// maxHandles bounds what is held, and so every run, to what sizes in a run's key can
// say (see startBits): 1 TiB less one handle.
const maxHandles = 1<<(64-startBits)/int(pageUnits) - 1

// SetLimit bounds the physical memory that may be created from now on, within
// Config.Limit; 0: that alone. What is held beyond it already stays.
func (e *Engine) SetLimit(limit mem.Bytes) {
	e.limit = maxHandles
	for _, most := range []mem.Bytes{limit, e.cfg.Limit} {
		if most > 0 {
			e.limit = min(e.limit, int(most/mem.HandleSize))
		}
	}
}
