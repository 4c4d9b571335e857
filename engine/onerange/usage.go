package onerange

import "stalloc/engine"

// Usage looks at all blocks and gaps, for whoever asks where the memory is.
func (e *Engine) Usage() engine.Usage {
	u := engine.Usage{Live: map[engine.Use]int{}, Steps: e.steps, Whole: bytesOf(e.spareUnits())}
	for i := range e.blocks {
		if b := &e.blocks[i]; b.state == blockLive {
			u.Live[engine.Use{Size: bytesOf(b.size), Step: b.step}]++
		}
	}
	for s := 1; s < len(e.spaces); s++ {
		if e.heaps[e.spaces[s].heap].anybodys() {
			u.Whole += bytesOf(e.freeHandles(uint32(s)))
		} else {
			u.Private += bytesOf(e.spaces[s].units)
		}
	}
	return u
}
