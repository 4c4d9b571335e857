package onerange

import "stalloc/internal/mem"

// Ordinal returns the number by which a log of events names a stream: that of its heap
// outside private pools, zero if it has none or the number is too large.
func (e *Engine) Ordinal(id mem.StreamID) uint16 {
	if h := e.heapAt.get(heapKey(id, 0)); h <= 1<<16-1 {
		return uint16(h)
	}
	return 0
}

// StreamOf returns the stream of a number that Ordinal gave.
func (e *Engine) StreamOf(ordinal uint16) mem.StreamID { return e.heaps[ordinal].stream }

// Streams returns the streams that have memory outside private pools.
func (e *Engine) Streams() (ids []mem.StreamID) {
	for h := range e.heaps[1:] {
		if x := &e.heaps[h+1]; x.pool == 0 {
			ids = append(ids, x.stream)
		}
	}
	return ids
}

// Load returns what a space of a stream has in blocks, those that wait for fences among them.
func (e *Engine) Load(id mem.StreamID, small bool) mem.Bytes {
	return bytesOf(e.spaces[e.spaceOf(e.heapAt.get(heapKey(id, 0)), small)].load)
}

// spaceOf returns the space of a heap for large or for small requests.
func (e *Engine) spaceOf(heap uint32, small bool) uint32 {
	if small {
		return e.heaps[heap].spaces[smallSpace]
	}
	return e.heaps[heap].spaces[largeSpace]
}
