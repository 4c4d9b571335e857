package onerange

import (
	"iter"

	"stalloc/internal/mem"
)

// Ordinal returns the number by which a log of events names a stream: that of its heap
// outside private pools, zero if it has none or the number is too large.
func (e *Engine) Ordinal(id mem.StreamID) uint16 {
	if h := e.heapOfKey[heapKey{stream: id}]; h <= 1<<16-1 {
		return uint16(h)
	}
	return 0
}

// Streams returns the streams that had requests or frees outside private pools in the step that
// ended last, or since then.
func (e *Engine) Streams() (ids []mem.StreamID) {
	steps := e.idx.Total().Steps
	for h := uint32(1); int(h) < len(e.heaps); h++ {
		used := max(e.idx.Room(large(h)).Used, e.idx.Room(small(h)).Used)
		if x := &e.heaps[h]; x.pool == 0 && used+1 >= steps {
			ids = append(ids, x.stream)
		}
	}
	return ids
}

// Regions returns the private pools without graphs, regions among them, that have memory or may
// have had since a trim.
func (e *Engine) Regions() map[uint64]bool {
	all := map[uint64]bool{}
	for h := range e.heaps {
		if c := &e.heaps[h]; e.isUncaptured(c) {
			all[c.pool] = true
		}
	}
	return all
}

func (e *Engine) arenaOf(id mem.StreamID, ofSmall bool) uint32 {
	h := e.heapOfKey[heapKey{stream: id}]
	if ofSmall {
		return small(h)
	}
	return large(h)
}

// allArenas yields the arenas, in the order in which streams and pools were seen.
func (e *Engine) allArenas() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for s := uint32(firstArena); int(s) < len(e.arenas) && yield(s); s++ {
		}
	}
}
