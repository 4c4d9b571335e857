package onerange

import (
	"stalloc/engine"
	"stalloc/engine/index"
)

// Usage looks at all blocks and gaps, for whoever asks where the memory is.
func (e *Engine) Usage() engine.Usage {
	u := engine.Usage{Live: map[engine.Use]int{}, Steps: e.idx.Total().Steps,
		Whole: bytesOf(e.units(e.unmapped))}
	for b := range e.idx.Blocks() {
		if b.State != index.Pending {
			u.Live[engine.Use{Size: bytesOf(b.Size), Step: b.Step}]++
		}
	}
	for s := range e.allArenas() {
		if e.heaps[heapAt(s)].reclaimable() {
			u.Whole += bytesOf(e.freeHandles(s))
		} else {
			u.Private += bytesOf(e.idx.Room(s).Free)
		}
	}
	return u
}
